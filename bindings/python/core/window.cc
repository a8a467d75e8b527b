// window: mutexes, signals, and what a window says about itself.
#include "bindings/python/core/window.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/request.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {
namespace {

using Clock = std::chrono::steady_clock;

// A lock() that a signal may end before it has taken the mutexes. Whoever comes last, the call or
// the signal, gives them back.
struct Taking {
  std::mutex mutex;
  bool is_taken = false;
  bool is_abandoned = false;
};

void lock(const PyWindow& self, nb::handle ranks) {
  const KeptContext kept(*self.open);
  auto taking = std::make_shared<Taking>();
  const auto take = [taking, ranks = read_ranks("ranks", ranks)](Window& window) {
    Status status = window.lock(ranks);
    bool is_abandoned = false;
    {
      const std::lock_guard guard(taking->mutex);
      taking->is_taken = status.ok();
      is_abandoned = taking->is_abandoned;
    }
    if (status.ok() && is_abandoned) (void)window.unlock();
    return status;
  };
  try {
    check(self.interruptibly(take));
  } catch (nb::python_error&) {
    bool is_taken = false;
    {
      const std::lock_guard guard(taking->mutex);
      taking->is_abandoned = true;
      is_taken = taking->is_taken;
    }
    if (is_taken) {
      run_beside([context = kept.shared(), window = self.open->window]() mutable {
        (void)window.unlock();
      });
    }
    throw;
  }
}

void unlock(const PyWindow& self) {
  check(self.interruptibly([](Window& window) { return window.unlock(); }));
}

void flush(const PyWindow& self, std::optional<std::uintptr_t> stream) {
  check(self.interruptibly(
      [behind = stream_of(stream)](Window& window) { return window.flush(behind); }));
}

void wait_signal(const PyWindow& self, int number, std::uint64_t count,
                 std::optional<double> timeout_s) {
  const auto most = std::chrono::nanoseconds(self.open->deadline_ns);
  auto limit = most;
  if (timeout_s) {
    const double seconds = std::clamp(*timeout_s, 0.0, std::chrono::duration<double>(most).count());
    limit = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds));
  }
  const Clock::time_point end = Clock::now() + limit;
  while (true) {
    const auto left = std::chrono::nanoseconds(end - Clock::now());
    const auto slice = std::clamp<std::chrono::nanoseconds>(left, {}, kSlice);
    const Status status = self.at_once(
        [&](Window& window) { return window.wait_signal(number, count, slice.count()); });
    if (status.code() != Code::timed_out) return check(status);
    check_signals();
    if (Clock::now() >= end) check(status);
  }
}

// In the order of the in-neighbors.
nb::dict versions(const PyWindow& self) {
  const std::vector<std::uint64_t> found =
      check(self.at_once([](Window& window) { return window.versions(); }));
  nb::dict result;
  const auto ranks = self.open->window.in_neighbors();
  for (std::size_t i = 0; i < found.size(); ++i) result[nb::int_(ranks[i])] = found[i];
  return result;
}

std::vector<Rank> listed(std::span<const Rank> ranks) {
  return {ranks.begin(), ranks.end()};
}

}  // namespace

void bind_window(nb::module_& module) {
  nb::class_<PyWindow> type(module, "Window",
                            "Memory that neighbors write, read and add to while its owner "
                            "computes. Base of weft.Window, which has the calls on arrays.");
  type.def(nb::init<const PyWindow&>(), nb::arg("other"), "A second name for the same window.");
  type.def_prop_ro("name", [](const PyWindow& self) { return self.open->window.name(); });
  type.def_prop_ro(
      "tensor",
      [](const PyWindow& self) { return nb::borrow<nb::object>(self.open->array->object()); },
      nb::sig("def tensor(self) -> typing.Any"),
      "This rank's array, as it was given to win_create().");
  type.def_prop_ro("rank", [](const PyWindow& self) { return self.open->rank; });
  type.def_prop_ro(
      "in_neighbors", [](const PyWindow& self) { return listed(self.open->window.in_neighbors()); },
      "The ranks whose slots this rank has, in ascending order.");
  type.def_prop_ro(
      "out_neighbors",
      [](const PyWindow& self) { return listed(self.open->window.out_neighbors()); },
      "The ranks that have a slot of this rank, in ascending order.");
  bind_window_works(type);
  type.def("flush_raw", &flush, nb::arg("stream").none(),
           "Waits until all works that this rank has started on this window have ended. Raises the "
           "first error among those that nobody has waited for.");
  type.def("versions", &versions, nb::sig("def versions(self) -> dict[int, int]"),
           "For each in-neighbor: how many puts and gets have landed in its slot since the last "
           "update.");
  type.def(
      "associated_p",
      [](const PyWindow& self) {
        return check(self.at_once([](Window& window) { return window.associated_p(); }));
      },
      "The p of this rank's array, for push-sum: 1 at first.");
  type.def(
      "set_associated_p",
      [](const PyWindow& self, bool on) {
        check(self.at_once([on](Window& window) { return window.set_associated_p(on); }));
      },
      nb::arg("on"), "Whether p moves together with arrays; off at first.");
  type.def("lock_raw", &lock, nb::arg("ranks"),
           nb::sig("def lock_raw(self, ranks: collections.abc.Iterable[int]) -> None"),
           "Takes the mutexes of these ranks; lock() gives them back as well.");
  type.def("unlock_raw", &unlock, "Gives back what lock_raw() has taken.");
  type.def(
      "signal",
      [](const PyWindow& self, int number) {
        return check(self.at_once([number](Window& window) { return window.signal(number); }));
      },
      nb::arg("number"),
      "How often this signal (0 to 15) was raised here, by all in-neighbors together.");
  type.def(
      "wait_signal", &wait_signal, nb::arg("number"), nb::arg("count"),
      nb::arg("timeout") = nb::none(),
      "Waits until signal() is at least `count`. TimedOut after `timeout` seconds, at the "
      "latest after the deadline of the context. PeerDied or PeerLeft if no in-neighbor is left "
      "that could raise it.");
  type.def("__repr__", [](const PyWindow& self) {
    return "<weft.Window \"" + self.open->window.name() + "\">";
  });
}

}  // namespace weft::python
