// window_works: the calls of a window that move data, on memory given by address.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/handle.h"
#include "bindings/python/core/prepared.h"
#include "bindings/python/core/request.h"
#include "bindings/python/core/waiting.h"
#include "bindings/python/core/window.h"

namespace weft::python {
namespace {

// Weights of neighbors, and a view of them; absent for None.
struct Weights {
  Weights(const char* what, nb::handle from) : is_present(is_given(from)) {
    if (is_present) read_weights(what, from, all);
  }
  [[nodiscard]] std::optional<std::span<const NeighborWeight>> view() const {
    if (!is_present) return std::nullopt;
    return std::span<const NeighborWeight>(all);
  }

  bool is_present;
  std::vector<NeighborWeight> all;
};

// Starts a work, which keeps the objects until it is done.
template <typename Start>
std::unique_ptr<Operation> start(const PyWindow& self, nb::object kept, Start begin) {
  Handle handle = check(self.at_once(std::move(begin)));
  self.open->last = handle;
  return std::make_unique<Operation>(std::move(handle), keep(std::move(kept)),
                                     self.open->has_no_thread);
}

// A put or an accumulate of memory given by address.
struct Put {
  Put(bool adds, std::uintptr_t x, std::size_t count, int dtype, double self_weight,
      nb::handle destinations, bool require_mutex, int signal, std::optional<std::uintptr_t> stream,
      int compression)
      : accumulates(adds),
        memory{reinterpret_cast<void*>(x), count, type_of(dtype)},
        weights("dst_weights", destinations),
        how{self_weight, weights.view(),    require_mutex,
            signal,      stream_of(stream), compression_of(compression)} {}
  Put(const Put&) = delete;
  Put& operator=(const Put&) = delete;

  const bool accumulates;
  const Output memory;
  const Weights weights;
  const WindowPut how;
};

std::unique_ptr<Operation> start_put(const PyWindow& self, bool accumulates, std::uintptr_t x,
                                     std::size_t count, int dtype, double self_weight,
                                     nb::handle destinations, bool require_mutex, int signal,
                                     std::optional<std::uintptr_t> stream, int compression,
                                     nb::object kept) {
  const Put put(accumulates, x, count, dtype, self_weight, destinations, require_mutex, signal,
                stream, compression);
  return start(self, std::move(kept), [&](Window& window) {
    return put.accumulates ? window.accumulate_start(put.memory, put.how)
                           : window.put_start(put.memory, put.how);
  });
}

// A call that is prepared by `make`, which keeps the objects.
template <typename Make>
std::unique_ptr<PyPrepared> prepare(const PyWindow& self, nb::object kept, Make make) {
  Prepared prepared = check(self.at_once(std::move(make)));
  return std::make_unique<PyPrepared>(std::move(prepared), keep(std::move(kept)),
                                      self.open->has_no_thread);
}

std::unique_ptr<PyPrepared> prepare_put(const PyWindow& self, bool accumulates, std::uintptr_t x,
                                        std::size_t count, int dtype, double self_weight,
                                        nb::handle destinations, bool require_mutex, int signal,
                                        std::optional<std::uintptr_t> stream, int compression,
                                        nb::object kept) {
  const Put put(accumulates, x, count, dtype, self_weight, destinations, require_mutex, signal,
                stream, compression);
  return prepare(self, std::move(kept), [&](Window& window) {
    return put.accumulates ? window.prepare_accumulate(put.memory, put.how)
                           : window.prepare_put(put.memory, put.how);
  });
}

std::unique_ptr<Operation> start_get(const PyWindow& self, nb::handle sources, bool require_mutex,
                                     std::optional<std::uintptr_t> stream) {
  const Weights weights("src_weights", sources);
  WindowGet how;
  how.sources = weights.view();
  how.require_mutex = require_mutex;
  how.stream = stream_of(stream);
  return start(self, nb::object(), [&](Window& window) { return window.get_start(how); });
}

// Whether works may be under way, for which an update would have to wait.
bool is_busy(OpenWindow& open) {
  if (open.last && open.last->test()) open.last.reset();
  return open.last.has_value();
}

void update(const PyWindow& self, std::optional<double> self_weight, nb::handle sources, bool reset,
            bool require_mutex, std::uintptr_t clone, std::size_t count, int dtype,
            std::optional<std::uintptr_t> stream, nb::object kept) {
  const auto run = [weights = Weights("src_weights", sources), self_weight, reset, require_mutex,
                    clone, count, type = type_of(dtype), behind = stream_of(stream),
                    kept = keep(std::move(kept))](Window& window) {
    WindowUpdate how;
    how.self_weight = self_weight;
    how.sources = weights.view();
    how.reset = reset;
    how.require_mutex = require_mutex;
    how.stream = behind;
    if (clone != 0) how.clone = {reinterpret_cast<void*>(clone), count, type};
    return window.update(how);
  };
  const bool may_wait = require_mutex || stream || is_busy(*self.open);
  check(may_wait ? self.interruptibly(run) : self.at_once(run));
}

std::vector<WindowPage> pages_of(const std::vector<std::pair<std::size_t, std::size_t>>& from) {
  std::vector<WindowPage> pages;
  pages.reserve(from.size());
  for (const auto& [local, remote] : from) pages.push_back({local, remote});
  return pages;
}

std::unique_ptr<Operation> start_write(const PyWindow& self, Rank to, std::uintptr_t x,
                                       std::size_t count, int dtype,
                                       const std::vector<std::pair<std::size_t, std::size_t>>& from,
                                       std::size_t page_bytes, int signal,
                                       std::optional<std::uintptr_t> stream, nb::object kept) {
  const Input memory{reinterpret_cast<const void*>(x), count, type_of(dtype)};
  const std::vector<WindowPage> pages = pages_of(from);
  return start(self, std::move(kept), [&](Window& window) {
    return window.write_start(to, memory, pages, page_bytes, signal, stream_of(stream));
  });
}

std::unique_ptr<PyPrepared> prepare_write(
    const PyWindow& self, Rank to, std::uintptr_t x, std::size_t count, int dtype,
    const std::vector<std::pair<std::size_t, std::size_t>>& from, std::size_t page_bytes,
    int signal, std::optional<std::uintptr_t> stream, nb::object kept) {
  const Input memory{reinterpret_cast<const void*>(x), count, type_of(dtype)};
  const std::vector<WindowPage> pages = pages_of(from);
  return prepare(self, std::move(kept), [&](Window& window) {
    return window.prepare_write(to, memory, pages, page_bytes, signal, stream_of(stream));
  });
}

std::unique_ptr<Operation> start_wait_signal(const PyWindow& self, int number, std::uint64_t count,
                                             std::optional<double> timeout_s) {
  const auto most = std::chrono::duration<double>(std::chrono::nanoseconds(self.open->deadline_ns));
  const double seconds = std::clamp(timeout_s.value_or(most.count()), 0.0, most.count());
  const auto patience_ns = static_cast<std::int64_t>(seconds * 1e9);
  return start(self, nb::object(), [&](Window& window) {
    return window.wait_signal_start(number, count, patience_ns);
  });
}

void read(const PyWindow& self, Rank from, std::uintptr_t y, std::size_t count, int dtype,
          std::size_t offset, std::optional<std::uintptr_t> stream, nb::object kept) {
  const Output memory{reinterpret_cast<void*>(y), count, type_of(dtype)};
  check(self.interruptibly([from, memory, offset, behind = stream_of(stream),
                            kept = keep(std::move(kept))](Window& window) {
    return window.read(from, memory, offset, behind);
  }));
}

// The arguments of what starts and what prepares.
#define WEFT_PUT_ARGUMENTS                                                              \
  nb::arg("accumulates"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"),             \
      nb::arg("self_weight"), nb::arg("destinations").none(), nb::arg("require_mutex"), \
      nb::arg("signal"), nb::arg("stream").none(), nb::arg("compression"), nb::arg("keep")
#define WEFT_PUT_SIGNATURE(name, result)                                                 \
  "def " name                                                                            \
  "(self, accumulates: bool, x: int, count: int, dtype: int, self_weight: float, "       \
  "destinations: collections.abc.Mapping[int, float] | collections.abc.Iterable[int] | " \
  "None, require_mutex: bool, signal: int, stream: int | None, compression: int, "       \
  "keep: object) -> " result
#define WEFT_WRITE_ARGUMENTS                                                         \
  nb::arg("to"), nb::arg("x"), nb::arg("count"), nb::arg("dtype"), nb::arg("pages"), \
      nb::arg("page_bytes"), nb::arg("signal"), nb::arg("stream").none(), nb::arg("keep")
#define WEFT_WRITE_SIGNATURE(name, result)                                    \
  "def " name                                                                 \
  "(self, to: int, x: int, count: int, dtype: int, pages: "                   \
  "collections.abc.Sequence[tuple[int, int]], page_bytes: int, signal: int, " \
  "stream: int | None, keep: object) -> " result

}  // namespace

void bind_window_works(nb::class_<PyWindow>& type) {
  type.def("start_wait_signal_raw", &start_wait_signal, nb::arg("number"), nb::arg("count"),
           nb::arg("timeout").none());
  type.def("start_put_raw", &start_put, WEFT_PUT_ARGUMENTS,
           nb::sig(WEFT_PUT_SIGNATURE("start_put_raw", "Handle")),
           "Starts a put or an accumulate of memory given by address. `keep` lives until it is "
           "done.");
  type.def("prepare_put_raw", &prepare_put, WEFT_PUT_ARGUMENTS,
           nb::sig(WEFT_PUT_SIGNATURE("prepare_put_raw", "Prepared")), "Prepares the same.");
  type.def("start_get_raw", &start_get, nb::arg("sources").none(), nb::arg("require_mutex"),
           nb::arg("stream").none(),
           nb::sig("def start_get_raw(self, sources: collections.abc.Mapping[int, float] | "
                   "collections.abc.Iterable[int] | None, require_mutex: bool, stream: int | None) "
                   "-> Handle"),
           "Starts a get.");
  type.def("update_raw", &update, nb::arg("self_weight").none(), nb::arg("sources").none(),
           nb::arg("reset"), nb::arg("require_mutex"), nb::arg("clone"), nb::arg("count"),
           nb::arg("dtype"), nb::arg("stream").none(), nb::arg("keep").none(),
           nb::sig("def update_raw(self, self_weight: float | None, sources: "
                   "collections.abc.Mapping[int, float] | collections.abc.Iterable[int] | None, "
                   "reset: bool, require_mutex: bool, clone: int, count: int, dtype: int, "
                   "stream: int | None, keep: object) -> None"),
           "Updates the window's array, or the memory at the address `clone` if it is not 0.");
  type.def("start_write_raw", &start_write, WEFT_WRITE_ARGUMENTS,
           nb::sig(WEFT_WRITE_SIGNATURE("start_write_raw", "Handle")),
           "Starts to write pages, which are pairs of offsets in bytes: here and there.");
  type.def("prepare_write_raw", &prepare_write, WEFT_WRITE_ARGUMENTS,
           nb::sig(WEFT_WRITE_SIGNATURE("prepare_write_raw", "Prepared")), "Prepares the same.");
  type.def("read_raw", &read, nb::arg("source"), nb::arg("y"), nb::arg("count"), nb::arg("dtype"),
           nb::arg("offset"), nb::arg("stream").none(), nb::arg("keep"),
           nb::sig("def read_raw(self, source: int, y: int, count: int, dtype: int, offset: int, "
                   "stream: int | None, keep: object) -> None"),
           "Reads bytes of the array of a neighbor into memory given by address.");
}

}  // namespace weft::python
