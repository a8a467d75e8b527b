// named: operations by name.
#include "bindings/python/core/named.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/handle.h"
#include "bindings/python/core/plain_array.h"
#include "bindings/python/core/request.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {
namespace {

using SharedNamed = std::shared_ptr<OpenNamed>;

SharedNamed opened(const PyNamed& self) {
  SharedNamed open = self.open.lock();
  if (open == nullptr) raise(Status(Code::closed, "this Named has ended"));
  return open;
}

PyNamed named(const PyContext& self, std::size_t cache_capacity, std::int64_t fusion_bytes,
              std::int64_t fused_tensor_bytes, std::int64_t gather_us, std::int64_t piece_bytes,
              std::int64_t stall_ms, bool autotune) {
  const Session::Use use = self->context();
  const NamedOptions options{
      cache_capacity, fusion_bytes, fused_tensor_bytes, gather_us, piece_bytes, stall_ms, autotune};
  auto open = std::make_shared<OpenNamed>();
  open->rank = self->rank();
  open->size = self->size();
  open->has_no_thread = self->has_no_thread();
  check(interruptible<Status>([open, options, opened = use.opened()]() -> Status {
    Result<Named> made = opened->context->named(options);
    if (!made.ok()) return made.status();
    open->named = *std::move(made);
    opened->add(open);
    return {};
  }));
  return {open};
}

std::unique_ptr<Operation> give(const SharedNamed& open, Result<Handle> started, SharedKept kept) {
  return std::make_unique<Operation>(check(std::move(started)), std::move(kept),
                                     open->has_no_thread);
}

// What keeps all of these.
SharedKept joined(const std::vector<SharedKept>& all) {
  nb::list objects;
  for (const SharedKept& each : all) {
    if (each != nullptr) objects.append(each->object());
  }
  return keep(std::move(objects));
}

std::unique_ptr<Operation> start_raw(const PyNamed& self, const std::string& name, int priority,
                                     const PyRequest& request) {
  const SharedNamed open = opened(self);
  Result<Handle> started = [&]() -> Result<Handle> {
    const GilReleased released;
    return open->named.start(name, request.get(), priority);
  }();
  return give(open, std::move(started), request.kept());
}

// The short way for two plain arrays of the same size and an operation without weights or counts. None if
// the arrays need the general way.
nb::object start_plain(const PyNamed& self, const std::string& name, int priority, int kind,
                       nb::handle x, nb::handle y, int op, int algorithm) {
  PlainArray input;
  PlainArray output;
  if (!input.open(x, false) || !output.open(y, true)) return nb::none();
  const Input from = input.input();
  const Output to = output.output();
  if (from.type != to.type || from.count != to.count) return nb::none();
  PyRequest request(kind, from, to, op, algorithm);
  request.set_shape(input.shape());
  request.set_kept(x.is(y) ? input.owner() : nb::make_tuple(input.owner(), output.owner()));
  std::unique_ptr<Operation> operation = start_raw(self, name, priority, request);
  operation->set_result(nb::borrow(y));
  return nb::cast(std::move(operation));
}

std::unique_ptr<Operation> start_group_raw(const PyNamed& self, const std::string& name,
                                           int priority,
                                           const std::vector<const PyRequest*>& group) {
  const SharedNamed open = opened(self);
  std::vector<Request> requests;
  std::vector<SharedKept> kept;
  for (const PyRequest* each : group) {
    requests.push_back(each->get());
    kept.push_back(each->kept());
  }
  Result<Handle> started = [&]() -> Result<Handle> {
    const GilReleased released;
    return open->named.start_group(name, requests, priority);
  }();
  return give(open, std::move(started), joined(kept));
}

Rank join(const PyNamed& self) {
  return check(interruptible<Result<Rank>>([open = opened(self)] { return open->named.join(); }));
}

void set_graph(const PyNamed& self, const Graph& graph, bool weighted) {
  check(opened(self)->named.set_graph(graph, weighted));
}

// The call has the last reference: destroying a Named waits for callbacks, which need the GIL.
void end(const PyContext& context, const PyNamed& self) {
  SharedNamed open = opened(self);
  const Session::Use use = context->context();
  check(interruptible<Status>([open = std::move(open), opened = use.opened()]() -> Status {
    const Status status = open->named.end();
    if (status.ok()) opened->remove(open);
    return status;
  }));
}

nb::dict usage(const PyNamed& self) {
  const SharedNamed open = opened(self);
  const Named::Usage found = check([&] {
    const GilReleased released;
    return open->named.usage();
  }());
  nb::dict result;
  result["submitted"] = found.submitted;
  result["cycles"] = found.cycles;
  result["control_bytes"] = found.control_bytes;
  result["control_messages"] = found.control_messages;
  result["coordinator_messages"] = found.coordinator_messages;
  result["cache_hits"] = found.cache_hits;
  result["batches"] = found.batches;
  result["fused"] = found.fused;
  result["pending"] = found.pending;
  result["fusion_buffer_bytes"] = found.fusion_buffer_bytes;
  result["fusion_bytes"] = found.fusion_bytes;
  result["fused_tensor_bytes"] = found.fused_tensor_bytes;
  result["gather_us"] = found.gather_us;
  result["piece_bytes"] = found.piece_bytes;
  result["is_tuning"] = found.is_tuning;
  nb::list by_names;
  for (const std::uint64_t batches : found.batches_by_names) by_names.append(batches);
  result["batches_by_names"] = by_names;
  return result;
}

}  // namespace

void bind_context_named(nb::class_<PyContext>& type) {
  type.def("named_raw", &named, nb::arg("cache_capacity"), nb::arg("fusion_bytes"),
           nb::arg("fused_tensor_bytes"), nb::arg("gather_us"), nb::arg("piece_bytes"),
           nb::arg("stall_ms"), nb::arg("autotune"),
           "Operations by name; named() gives the one with arrays. Collective.");
  type.def("end_named", &end, nb::arg("named"), "Ends a Named. Collective.");
}

void bind_named(nb::module_& module) {
  nb::class_<PyNamed> type(
      module, "Named",
      "Operations that ranks submit by name. Base of weft.Named, which has the "
      "operations on arrays.");
  type.def(nb::init<const PyNamed&>(), nb::arg("other"), "A second name for the same object.");
  type.def_prop_ro("rank", [](const PyNamed& self) { return opened(self)->rank; });
  type.def_prop_ro("size", [](const PyNamed& self) { return opened(self)->size; });
  type.def("start_raw", &start_raw, nb::arg("name"), nb::arg("priority"), nb::arg("request"),
           "Submits an operation on memory given by address. Ranks compare the shape, if it is "
           "given.");
  type.def(
      "start_plain", &start_plain, nb::arg("name"), nb::arg("priority"), nb::arg("kind"),
      nb::arg("x"), nb::arg("y"), nb::arg("op") = 1, nb::arg("algorithm") = 0,
      nb::sig("def start_plain(self, name: str, priority: int, kind: int, x: object, y: object, "
              "op: int = 1, algorithm: int = 0) -> Handle | None"),
      "Submits an operation on two plain arrays of the same size. None, and nothing has "
      "happened, if they are anything else.");
  type.def("start_group_raw", &start_group_raw, nb::arg("name"), nb::arg("priority"),
           nb::arg("group"),
           nb::sig("def start_group_raw(self, name: str, priority: int, "
                   "group: collections.abc.Sequence[Request]) -> Handle"),
           "Submits a group of operations on memory given by addresses.");
  type.def("join", &join,
           "This rank is out of data: it gives zeros to every allreduce until all ranks have "
           "joined. Returns the rank that joined last.");
  type.def("set_graph", &set_graph, nb::arg("graph"), nb::arg("weighted") = false,
           "The graph of neighbor operations without peers of their own.");
  type.def("usage", &usage, nb::sig("def usage(self) -> dict[str, typing.Any]"),
           "What this object has done.");
}

}  // namespace weft::python
