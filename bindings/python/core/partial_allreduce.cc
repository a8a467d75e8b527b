// partial_allreduce: partial all-reduce in groups that a generator makes. The raw calls take addresses;
// weft._exchanges has the class on arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/request.h"
#include "bindings/python/core/serial.h"

namespace weft::python {
namespace {

using PyPartial = PySerial<PartialAllreduce>;

nb::dict usage(const PyPartial& self) {
  const auto now = run_serial<PartialAllreduce::Usage>(
      self, [](const PartialAllreduce& it) { return it.usage(); });
  nb::dict made;
  made["messages_sent"] = now.messages_sent;
  made["messages_received"] = now.messages_received;
  made["groups"] = now.groups;
  made["successions"] = now.successions;
  return made;
}

}  // namespace

void bind_partial_allreduce(nb::module_& module) {
  nb::class_<PyPartial> type(module, "PartialAllreduce", "Base of weft.PartialAllreduce.");
  type.def(
      "__init__",
      [](PyPartial* self, const PyContext& context, std::uintptr_t x, std::size_t count, int dtype,
         const std::string& name, const std::string& law, int threshold, int section,
         std::uint64_t seed, std::optional<std::uintptr_t> stream, nb::object array) {
        const PartialAllreduceOptions options{name,    law,  threshold,
                                              section, seed, stream_of(stream)};
        new (self) PyPartial(make_serial<PartialAllreduce>(
            context, keep(std::move(array)), [=, x = memory(x, count, dtype)](Context& on) {
              return PartialAllreduce::create(on, x, options);
            }));
      },
      nb::arg("context"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"), nb::arg("name"),
      nb::arg("law"), nb::arg("threshold"), nb::arg("section"), nb::arg("seed"),
      nb::arg("stream").none(), nb::arg("array"));
  type.def("begin", plain_serial(&PartialAllreduce::begin),
           "Asks for a group, unless this rank has asked.");
  type.def(
      "average",
      [](const PyPartial& self) {
        return check(run_serial<Result<std::vector<Rank>>>(
            self, [](PartialAllreduce& it) { return it.average(); }));
      },
      "The model becomes the mean of a group, whose ranks are returned, ascending. Between two "
      "sections nothing is averaged, and the group is empty.");
  type.def("usage", &usage, nb::sig("def usage(self) -> dict[str, int]"),
           "Messages of this rank with the generator, the groups in which it averaged with others, "
           "and successions: new generators, or old ones that lost workers.");
  type.def("end", plain_serial(&PartialAllreduce::end),
           "Leaves, and waits until all have left. This rank is in no group that is made after "
           "that. Collective.");
}

}  // namespace weft::python
