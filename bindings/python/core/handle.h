// handle: a started operation, with the Python objects that it uses and its result.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <optional>

#include "bindings/python/core/keep.h"

namespace weft::python {

class Operation {
 public:
  Operation(Handle handle, SharedKept kept, bool has_no_thread)
      : handle_(std::move(handle)), kept_(std::move(kept)), has_no_thread_(has_no_thread) {}
  // If the operation is not done, what it uses lives on until it is.
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  [[nodiscard]] bool test();
  // Raises the operation's error, or TimedOut.
  nb::object wait(std::optional<double> timeout_s);
  // Runs call(error or None) on the completion thread.
  void then(nb::object call);

  [[nodiscard]] bool has_no_thread() const { return has_no_thread_; }
  [[nodiscard]] nb::object result() const { return result_; }
  void set_result(nb::object result) { result_ = std::move(result); }

 private:
  Handle handle_;
  SharedKept kept_;
  const bool has_no_thread_;
  nb::object result_ = nb::none();
};

}  // namespace weft::python
