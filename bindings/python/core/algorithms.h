// algorithms: how Python holds a method of learning, and what a call of one does.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "bindings/python/core/context.h"
#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/keep.h"
#include "bindings/python/core/request.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {

namespace nb = nanobind;

// An algorithm, and the context that it needs. Its windows keep the array that it works on.
template <typename Algorithm>
struct Open {
  std::weak_ptr<Context> context;
  std::optional<Algorithm> algorithm;
};

template <typename Algorithm>
struct PyAlgorithm {
  using Clock = std::chrono::steady_clock;

  std::shared_ptr<Open<Algorithm>> open;

  // The context; raises Closed if it was closed.
  [[nodiscard]] std::shared_ptr<Context> context() const {
    std::shared_ptr<Context> found = open->context.lock();
    if (found == nullptr) raise(Status(Code::closed, "the context was closed"));
    return found;
  }
  // The result of a call that may wait for other ranks. `kept`: what it uses beside the algorithm.
  template <typename T, typename Call>
  T run(Call call, SharedKept kept = nullptr) const {
    return interruptible<T>([context = context(), open = open, kept = std::move(kept),
                             call = std::move(call)]() mutable { return call(*open->algorithm); });
  }
  // Repeats a call that waits for so long at most, until it has ended or the time is over. Signals
  // are looked at in between.
  template <typename Call>
  void run_for(std::optional<double> timeout_s, Call call) const {
    const std::shared_ptr<Context> on = context();
    const auto deadline = std::chrono::milliseconds(on->config().deadline_ms);
    auto limit = std::chrono::nanoseconds(deadline);
    if (timeout_s)
      limit = std::min(limit, std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::duration<double>(std::max(*timeout_s, 0.0))));
    const Clock::time_point end = Clock::now() + limit;
    while (true) {
      const auto left = std::chrono::nanoseconds(end - Clock::now());
      const auto slice = std::clamp<std::chrono::nanoseconds>(left, {}, kSlice);
      Status status;
      {
        const GilReleased released;
        status = call(*open->algorithm, slice.count());
      }
      if (status.code() != Code::timed_out) return check(status);
      check_signals();
      if (Clock::now() >= end) check(status);
    }
  }
};

template <typename Algorithm, typename Make>
PyAlgorithm<Algorithm> make(const PyContext& self, Make make) {
  const Session::Use use = self->context();
  auto open = std::make_shared<Open<Algorithm>>();
  open->context = use.shared();
  check(interruptible<Status>([open, context = use.shared(), make = std::move(make)]() -> Status {
    Result<Algorithm> made = make(*context);
    if (!made.ok()) return made.status();
    open->algorithm.emplace(*std::move(made));
    return {};
  }));
  return {std::move(open)};
}

inline Output memory(std::uintptr_t x, std::size_t count, int dtype) {
  return {reinterpret_cast<void*>(x), count, type_of(dtype)};
}

template <typename Algorithm>
auto plain(Status (Algorithm::*call)()) {
  return [call](const PyAlgorithm<Algorithm>& self) {
    check(self.template run<Status>([call](Algorithm& it) { return (it.*call)(); }));
  };
}

// Calls update() with a function that calls change() of Python. What change() raised is raised when the update has
// ended.
template <typename Update>
void update_by(const nb::object& change, Update update) {
  std::optional<nb::python_error> raised;
  const Status status = [&]() -> Status {
    const GilReleased released;
    return update([&] {
      const GilAcquired acquired;
      try {
        change();
      } catch (nb::python_error& error) {
        raised.emplace(std::move(error));
      }
    });
  }();
  if (raised) throw nb::python_error(std::move(*raised));
  check(status);
}

}  // namespace weft::python
