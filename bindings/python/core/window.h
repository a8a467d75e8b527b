// window: what Python holds of a window.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/open_windows.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {

namespace nb = nanobind;

// Keeps the context of a window for the time of a call, so that it is not destroyed meanwhile. A
// context that was closed already is null, and then the call itself says so.
class KeptContext {
 public:
  explicit KeptContext(const OpenWindow& open) : context_(open.context.lock()) {}
  ~KeptContext() {
    const GilReleased released;
    context_.reset();
  }
  KeptContext(const KeptContext&) = delete;
  KeptContext& operator=(const KeptContext&) = delete;
  [[nodiscard]] const std::shared_ptr<Context>& shared() const { return context_; }

 private:
  std::shared_ptr<Context> context_;
};

// Copies name the same window.
struct PyWindow {
  SharedWindow open;

  // The result of a call that waits for nobody, or not for long.
  template <typename Call>
  auto at_once(Call call) const {
    const KeptContext kept(*open);
    const GilReleased released;
    return call(open->window);
  }
  // The Status of a call that may wait, and that goes on if a signal ends the wait. So it owns what
  // it uses.
  template <typename Call>
  Status interruptibly(Call call) const {
    const KeptContext kept(*open);
    return interruptible<Status>([context = kept.shared(), window = open->window,
                                  call = std::move(call)]() mutable { return call(window); });
  }
};

// Adds the functions that move data.
void bind_window_works(nb::class_<PyWindow>& type);

}  // namespace weft::python
