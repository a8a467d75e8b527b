// waiting: how Python code waits for Weft. The GIL is released, and a signal (Ctrl-C) ends the wait
// of the main thread: the signal's handler runs between slices, and what it raises leaves the wait.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "bindings/python/core/gil.h"

namespace weft::python {

namespace nb = nanobind;

// The longest time for which a signal is not noticed.
inline constexpr std::chrono::milliseconds kSlice{50};

// Remembers the main thread, the only one that handles signals.
void remember_main_thread();
[[nodiscard]] bool is_main_thread();

// Waits for an operation, at most `timeout_s` seconds if given; after that a timed_out Status, with
// the operation left as it is. Called with the GIL, which is released meanwhile. Throws python_error
// if a signal's handler raised.
[[nodiscard]] Status wait_for(Handle& handle, std::optional<double> timeout_s);

// Starts `call` on a thread of its own, which goes on if the wait is left.
void run_beside(std::function<void()> call);
// Runs the signal handlers that are due. Throws what they raise.
void check_signals();

// The result of call(), for calls that may wait for other ranks and have no handle. On the main
// thread the call runs on a thread of its own, so that a signal can end the wait. The call then goes
// on until its own deadline, so it must own what it uses. What the call owns is destroyed without the
// GIL.
template <typename T, typename Call>
T interruptible(Call call) {
  if (!is_main_thread()) {
    const GilReleased released;
    Call owned = std::move(call);
    return owned();
  }
  // What the call owns is given back before the result is there: when the caller goes on, the
  // thread holds no context any more.
  auto once = [owned = std::optional<Call>(std::move(call))]() mutable {
    T made = (*owned)();
    owned.reset();
    return made;
  };
  auto task = std::make_shared<std::packaged_task<T()>>(std::move(once));
  std::future<T> result = task->get_future();
  run_beside([task] { (*task)(); });
  while (true) {
    {
      const GilReleased released;
      if (result.wait_for(kSlice) == std::future_status::ready) break;
    }
    check_signals();
  }
  return result.get();
}

}  // namespace weft::python
