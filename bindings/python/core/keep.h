// keep: Python objects that must live until an operation is done, also where the thread that ends
// the operation does not hold the GIL, or the interpreter is shutting down.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

namespace weft::python {

namespace nb = nanobind;

// True from the exit hook on. From then no thread of Weft takes the GIL, because a thread that asks
// for it while the interpreter is finalized never returns.
[[nodiscard]] bool is_exiting();
void set_exiting();

// Owns a reference, and may be destroyed by any thread with or without the GIL. While the
// interpreter shuts down the reference is never given back: a transfer may still use the memory.
class Kept {
 public:
  explicit Kept(nb::object object) : object_(std::move(object)) {}
  ~Kept();
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  [[nodiscard]] nb::handle object() const { return object_; }

 private:
  nb::object object_;
};

using SharedKept = std::shared_ptr<const Kept>;
[[nodiscard]] inline SharedKept keep(nb::object object) {
  return object.is_valid() && !object.is_none() ? std::make_shared<const Kept>(std::move(object))
                                                : nullptr;
}

}  // namespace weft::python
