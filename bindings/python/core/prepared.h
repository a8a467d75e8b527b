// prepared: an operation that is called again and again, with the objects that it uses.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings/python/core/handle.h"
#include "bindings/python/core/keep.h"

namespace weft::python {

class PyPrepared {
 public:
  PyPrepared(Prepared prepared, SharedKept kept, bool has_no_thread)
      : prepared_(std::move(prepared)), kept_(std::move(kept)), has_no_thread_(has_no_thread) {}

  nb::object run();
  [[nodiscard]] std::unique_ptr<Operation> start();
  nb::object wait(std::optional<double> timeout_s);

  [[nodiscard]] nb::object result() const { return result_; }
  void set_result(nb::object result) { result_ = std::move(result); }

 private:
  Prepared prepared_;
  const SharedKept kept_;
  const bool has_no_thread_;
  Handle last_;  // of the run that was started last
  nb::object result_ = nb::none();
};

}  // namespace weft::python
