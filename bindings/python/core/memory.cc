// memory: arrays in Weft's shared segments. A Memory gives its bytes by the buffer protocol, so an
// array made of it keeps it alive.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <weft/weft.h>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"

namespace weft::python {
namespace nb = nanobind;

namespace {

class Memory {
 public:
  explicit Memory(std::size_t bytes) : data_(check(allocate(bytes))), bytes_(bytes) {}
  ~Memory() { deallocate(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Memory& memory = *nb::inst_ptr<Memory>(self);
  return PyBuffer_FillInfo(view, self, memory.data(), static_cast<Py_ssize_t>(memory.bytes()), 0,
                           flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

nb::dict usage() {
  const HeapUsage found = heap_usage();
  nb::dict result;
  result["allocated_bytes"] = found.allocated_bytes;
  result["huge_bytes"] = found.huge_bytes;
  result["backing"] = nb::str(found.backing.c_str());
  return result;
}

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(slots),
                     "Zeroed bytes in this process's shared segments, which the other ranks of the "
                     "machine read in place. Has the buffer protocol.")
      .def(nb::init<std::size_t>(), nb::arg("bytes"))
      .def_prop_ro("address",
                   [](const Memory& self) { return reinterpret_cast<std::uintptr_t>(self.data()); })
      .def_prop_ro("nbytes", &Memory::bytes);
  module.def(
      "metrics",
      [] {
        const nb::gil_scoped_release released;
        return metrics();
      },
      "What Weft has done in this process, as text for Prometheus: every open context, the "
      "operations by name, the shared heap and GPU memory.");
  module.def(
      "flight",
      [] {
        const nb::gil_scoped_release released;
        return flight();
      },
      "The flight recorder of this process: the last thousand operations of each context, and who "
      "waits for whom, a JSON object on each line, for `weft flight`.");
  module.def("heap_usage", &usage, nb::sig("def heap_usage() -> dict[str, typing.Any]"),
             "What the shared segments of this process use.");
}

}  // namespace weft::python
