// waiting: slices of a wait, with signals in between.
#include "bindings/python/core/waiting.h"

#include <algorithm>
#include <string>
#include <thread>

#include "bindings/python/core/gil.h"

namespace weft::python {
namespace {

using Clock = std::chrono::steady_clock;

unsigned long main_thread = 0;

}  // namespace

void remember_main_thread() {
  const nb::object thread = nb::module_::import_("threading").attr("main_thread")();
  main_thread = nb::cast<unsigned long>(thread.attr("ident"));
}

bool is_main_thread() {
  return PyThread_get_thread_ident() == main_thread;
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void run_beside(std::function<void()> call) {
  std::thread(std::move(call)).detach();
}

Status wait_for(Handle& handle, std::optional<double> timeout_s) {
  constexpr double kLongest = 1e9;  // seconds; the operation's own deadline is earlier
  const auto limit = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(timeout_s.value_or(kLongest), kLongest)));
  const Clock::time_point end = Clock::now() + limit;
  while (true) {
    {
      const GilReleased released;
      if (!timeout_s && !is_main_thread()) return handle.wait();
      const auto left = std::chrono::nanoseconds(end - Clock::now());
      const auto slice = std::clamp<std::chrono::nanoseconds>(left, {}, kSlice);
      if (handle.wait_for(slice.count())) return handle.wait();
    }
    check_signals();
    if (Clock::now() >= end) {
      return Status(Code::timed_out, "wait: the operation is not done after " +
                                         std::to_string(timeout_s.value_or(0)) + " s");
    }
  }
}

}  // namespace weft::python
