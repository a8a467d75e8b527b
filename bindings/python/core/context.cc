// context: making contexts, their properties, and the raw calls, which take addresses.
#include "bindings/python/core/context.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <optional>
#include <string>
#include <tuple>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/handle.h"
#include "bindings/python/core/plain_array.h"
#include "bindings/python/core/prepared.h"
#include "bindings/python/core/request.h"
#include "bindings/python/core/store.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {
namespace {

PyContext opened(std::unique_ptr<Context> context) {
  return {std::make_shared<Session>(std::move(context))};
}

PyContext from_environment() {
  using Made = Result<std::unique_ptr<Context>>;
  return opened(check(interruptible<Made>([] { return Context::from_environment(); })));
}

PyContext create(const Config& config, const PyStore& store) {
  using Made = Result<std::unique_ptr<Context>>;
  return opened(check(interruptible<Made>(
      [config, store = store.store] { return Context::create(config, store); })));
}

std::optional<PyContext> split(const PyContext& self, int color, int key) {
  using Made = Result<std::unique_ptr<Context>>;
  const Session::Use use = self->context();
  std::unique_ptr<Context> made = check(interruptible<Made>(
      [context = use.shared(), color, key] { return context->split(color, key); }));
  if (made == nullptr) return std::nullopt;
  return opened(std::move(made));
}

PyContext shrink(const PyContext& self) {
  using Made = Result<std::unique_ptr<Context>>;
  const Session::Use use = self->context();
  return opened(check(interruptible<Made>([context = use.shared()] { return context->shrink(); })));
}

// If a signal ends the wait, the arrays live on until the call has ended.
std::vector<Rank> admit(const PyContext& self,
                        const std::vector<std::tuple<std::uintptr_t, std::size_t, int>>& state,
                        nb::object arrays) {
  std::vector<Output> all;
  for (const auto& [address, count, dtype] : state)
    all.push_back({reinterpret_cast<void*>(address), count, type_of(dtype)});
  const Session::Use use = self->context();
  return check(interruptible<Result<std::vector<Rank>>>(
      [context = use.shared(), all, kept = keep(std::move(arrays))] {
        return context->admit(all);
      }));
}

void set_machine_graph(const PyContext& self, const Graph& graph, bool weighted) {
  const Session::Use use = self->context();
  check(interruptible<Status>([context = use.shared(), graph, weighted] {
    return context->set_machine_graph(graph, weighted);
  }));
}

// Waits for an operation that a blocking call has started. If a signal ends the wait, `kept` lives on
// until the operation is done. Without `kept` the memory is the caller's alone, so then the context
// is closed, which ends the operation.
void wait_for_end(const PyContext& self, Handle handle, const SharedKept& kept) {
  Operation operation(handle, kept, self->has_no_thread());
  try {
    (void)operation.wait(std::nullopt);
  } catch (nb::python_error&) {
    if (kept == nullptr && !handle.test()) self->close();
    throw;
  }
}

// Runs the operation for the time of one slice. The context is held only here, so that close() in
// another thread ends a longer wait. Returns the handle if the operation is not done yet.
std::optional<Handle> run_slice(const PyContext& self, const Request& request) {
  const Session::Use context = self->context();
  auto rest = [&] {
    const GilReleased released;
    return context->run_for(request, std::chrono::nanoseconds(kSlice).count());
  }();
  return check(std::move(rest));
}

// Runs the operation to its end. kept() is what it uses.
template <typename Kept>
void run(const PyContext& self, const Request& request, Kept kept) {
  std::optional<Handle> rest = run_slice(self, request);
  if (rest) wait_for_end(self, *std::move(rest), kept());
}

void run_raw(const PyContext& self, const PyRequest& request) {
  run(self, request.get(), [&] { return request.kept(); });
}

std::unique_ptr<Operation> start_raw(const PyContext& self, const PyRequest& request) {
  const Session::Use context = self->context();
  Result<Handle> started = [&]() -> Result<Handle> {
    const GilReleased released;
    return context->start(request.get());
  }();
  return std::make_unique<Operation>(check(std::move(started)), request.kept(),
                                     self->has_no_thread());
}

std::unique_ptr<PyPrepared> prepare_raw(const PyContext& self, const PyRequest& request) {
  const Session::Use context = self->context();
  Result<Prepared> prepared = [&]() -> Result<Prepared> {
    const GilReleased released;
    return context->prepare(request.get());
  }();
  return std::make_unique<PyPrepared>(check(std::move(prepared)), request.kept(),
                                      self->has_no_thread());
}

// The short way for two plain arrays and an operation without weights or counts. False if the
// arrays need the general way, which also says what is wrong with them.
bool run_plain(const PyContext& self, int kind, nb::handle x, nb::handle y, int op, int algorithm,
               Rank root) {
  PlainArray input;
  PlainArray output;
  if (!input.open(x, false) || !output.open(y, true)) return false;
  const Input from = input.input();
  const Output to = output.output();
  if (from.type != to.type || from.count != to.count) return false;
  PyRequest request(kind, from, to, op, algorithm);
  request.set_peers(root, kNoRank, false);
  run(self, request.get(), [&] { return keep(nb::make_tuple(input.owner(), output.owner())); });
  return true;
}

nb::dict usage(const PyContext& self) {
  const Session::Use context = self->context();
  const Context::Usage usage = [&] {
    const GilReleased released;
    return context->usage();
  }();
  nb::dict result;
  result["connected_peers"] = usage.connected_peers;
  result["endpoint_bytes"] = usage.endpoint_bytes;
  result["scratch_bytes"] = usage.scratch_bytes;
  result["plans_cached"] = usage.plans_cached;
  result["operations"] = usage.operations;
  result["network_bytes"] = usage.network_bytes;
  result["allocations"] = usage.allocations;
  return result;
}

bool has_message(const PyContext& self, Rank from) {
  const Session::Use context = self->context();
  return check([&] {
    const GilReleased released;
    return context->has_message(from);
  }());
}

std::string explain(const PyContext& self) {
  const Session::Use context = self->context();
  const GilReleased released;
  return context->explain();
}

std::string describe(const PyContext& self) {
  return "<weft.Context rank " + std::to_string(self->rank()) + " of " +
         std::to_string(self->size()) + (self->is_closed() ? ", closed>" : ">");
}

}  // namespace

void bind_context(nb::module_& module) {
  nb::class_<PyContext> type(module, "Context",
                             "A rank's membership in a job. Base of weft.Context, which has the "
                             "operations on arrays.");
  type.def(nb::init<const PyContext&>(), nb::arg("other"), "A second name for the same context.");
  type.def_static("from_environment", &from_environment,
                  "Joins the job that the environment names (weft run, mpirun, torchrun, ...). "
                  "Collective. Without such variables the rank is alone.");
  type.def_static("create", &create, nb::arg("config"), nb::arg("store"),
                  "Joins the job that the store leads to. Collective.");
  type.def_prop_ro("rank", [](const PyContext& self) { return self->rank(); });
  type.def_prop_ro("size", [](const PyContext& self) { return self->size(); });
  type.def_prop_ro("is_closed", [](const PyContext& self) { return self->is_closed(); });
  type.def_prop_ro(
      "local_rank", [](const PyContext& self) { return self->placement().local_rank; },
      "Among the ranks of this machine, ascending by rank.");
  type.def_prop_ro(
      "local_size", [](const PyContext& self) { return self->placement().local_size; },
      "Ranks on this machine.");
  type.def_prop_ro(
      "machine_rank", [](const PyContext& self) { return self->placement().machine_rank; },
      "Machines are numbered by their lowest rank.");
  type.def_prop_ro(
      "machine_size", [](const PyContext& self) { return self->placement().machine_size; },
      "Machines of the job.");
  type.def_prop_ro(
      "is_homogeneous", [](const PyContext& self) { return self->placement().is_homogeneous; },
      "Whether all machines have local_size ranks.");
  type.def_prop_ro("graph", [](const PyContext& self) { return self->graph(); });
  type.def_prop_ro("machine_graph",
                   [](const PyContext& self) { return self->context()->machine_graph(); });
  type.def(
      "set_graph",
      [](const PyContext& self, const Graph& graph, bool weighted) {
        self->set_graph(graph, weighted);
      },
      nb::arg("graph"), nb::arg("weighted") = false,
      "Collective: sets the graph of neighbor operations. If weighted, they use the graph's "
      "weights, else uniform ones.");
  type.def("set_machine_graph", &set_machine_graph, nb::arg("graph"), nb::arg("weighted") = false,
           "Collective: sets the graph of hierarchical operations, with one node per machine.");
  type.def("split", &split, nb::arg("color"), nb::arg("key") = 0,
           "Collective: a context of the ranks that give the same color, numbered by (key, rank); "
           "None for a negative color.");
  type.def_prop_ro(
      "members", [](const PyContext& self) { return self->context()->members(); },
      "The ranks that are there, ascending: not those that died or left.");
  type.def("shrink", &shrink,
           "Collective over the ranks that are left: a context of theirs, numbered anew.");
  type.def(
      "admit_raw", &admit, nb::arg("state"), nb::arg("keep"),
      nb::sig(
          "def admit_raw(self, state: Sequence[tuple[int, int, int]], keep: object) -> list[int]"),
      "Lets in ranks that have come back. The state is memory given by address, count and type; "
      "`keep` owns it.");
  bind_context_windows(type);
  bind_context_named(type);
  type.def("usage", &usage, nb::sig("def usage(self) -> dict[str, int]"),
           "What this context holds and has done.");
  type.def("has_message", &has_message, nb::arg("source"),
           "Whether a message of that rank has arrived for which no recv has been called.");
  type.def("explain", &explain, "Why the last operation ran as it did.");
  type.def(
      "close", [](const PyContext& self) { self->close(); },
      "Leaves the job. Operations in flight fail with Closed, and so does every later call. "
      "Calling it again has no effect.");
  type.def("run_raw", &run_raw, nb::arg("request"),
           "Runs an operation on memory given by address. If the request keeps nothing, Ctrl-C "
           "closes the context, because nothing else would end the use of the memory.");
  type.def("start_raw", &start_raw, nb::arg("request"),
           "Starts an operation on memory given by address.");
  type.def("prepare_raw", &prepare_raw, nb::arg("request"),
           "Prepares an operation on memory given by address.");
  type.def("run_plain", &run_plain, nb::arg("kind"), nb::arg("x"), nb::arg("y"), nb::arg("op") = 1,
           nb::arg("algorithm") = 0, nb::arg("root") = -1,
           nb::sig("def run_plain(self, kind: int, x: object, y: object, op: int = 1, "
                   "algorithm: int = 0, root: int = -1) -> bool"),
           "Runs an operation on two plain arrays of the same size. False, and nothing has "
           "happened, if they are anything else.");
  type.def(
      "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Context"));
  type.def(
      "__exit__", [](const PyContext& self, nb::handle, nb::handle, nb::handle) { self->close(); },
      nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
  type.def("__repr__", &describe);
}

}  // namespace weft::python
