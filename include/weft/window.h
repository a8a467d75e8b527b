// window: memory that neighbors write, read and add to while its owner computes.
//
//   auto window = context->win_create(weft::out(x, n), "model");          // collective
//   window->put(weft::out(x, n));            // x to this rank's slot at every out-neighbor
//   window->update();                        // x := the average of x and the slots of in-neighbors
//   context->win_free("model");              // collective
//
// A window belongs to a graph: the one that was set when the window was made. Each rank has a
// tensor in it (the one given to win_create, whose memory is shared with the window) and, for each
// in-neighbor, one *slot* of the tensor's shape. put() and accumulate() write this rank's slot at
// out-neighbors. get() fills this rank's own slots. update() combines its tensor with its slots.
//
// Operations are one-sided: put, get and accumulate end while the owner of the memory computes,
// sleeps or is stopped. UCX over TCP has no one-sided hardware. There the owner's progress thread
// carries them out, so if the owner's process is stopped, the caller waits until
// Config::deadline_ms.
//
// Consistency. A reader sees a slot as it was before or after one put, never a mixture. A get is
// atomic with respect to the owner's puts and updates. It is not atomic with respect to the owner's
// own stores to its tensor, unless both hold the mutex. The operations of one rank on one window
// take effect one after another, in the order of the calls.
//
// Associated p. For push-sum, a scalar p moves with the tensor: 1 in each tensor and 0 in each slot
// at creation, and put, accumulate, get and update treat it as one more element. For programs of
// accumulate and update_then_collect with column-stochastic weights, the sum of p over all tensors,
// slots and messages under way is the number of ranks. set_associated_p(true) switches it on; while
// it is off, p stays as it is.
//
// Failures. An operation on a rank that has died is an error that names the rank. Operations on the
// other ranks go on: the death of a rank ends no window. After a failed put or accumulate, the slot
// at that rank is as before the call or as after it. The mutex of a rank ends when the rank dies or
// leaves: lock() is then an error that names the rank, unlock() is not, and calls with
// require_mutex go on with the other ranks.
//
// GPU memory. Tensors may be in GPU memory, on some ranks or on all. Slots are always in host
// memory, and updates are computed there. Each put, accumulate, get, update, flush and fence of the
// owner copies its tensor to the host first. Neighbors see this copy, and cannot write() to the
// tensor. A call begins after the work in its stream, or without one after the work in the default
// stream. What a call writes is there when it returns, or when its handle is done.
//
// Threads: any thread may call any function. A Window is a handle: copies name the same window.
// Lifetime: the tensor must outlive the window, which ends with win_free or with its context.
// WindowOptions::owner sees to that. Calls on a window that was freed are invalid_argument, and
// `closed` after its context was closed. If win_free fails because the ranks could not agree, for
// example because one died, calls return that error, because another rank may have freed its part.
// A window keeps its slots until the last handle to it is gone.
#pragma once

#include <weft/handle.h>
#include <weft/prepared.h>
#include <weft/status.h>
#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace WEFT_PUBLIC weft {

class WindowObject;  // the implementation; internal

// How many signals a window has; they are numbered from 0.
inline constexpr int kWindowSignals = 16;

struct WindowOptions {
  // The slots begin with zeros; else with the owner's tensor as it is at creation.
  bool zero_init = false;
  std::optional<Stream> stream{};  // for a tensor on a GPU
  // Owns the memory of the tensor. It is kept as long as other ranks may use that memory: until
  // win_free, or, if the context closes before, until the process ends.
  std::shared_ptr<const void> owner{};
};

// The parts of put() and accumulate() that are absent have these defaults.
struct WindowPut {
  // After the tensor was sent, it is multiplied by this, in place.
  double self_weight = 1.0;
  // Which out-neighbors, and the weight of each; absent: all, with weight 1.
  std::optional<std::span<const NeighborWeight>> destinations{};
  // Takes the mutex of each destination for the duration.
  bool require_mutex = false;
  // A signal that is raised by 1 at each destination once the data is visible there; -1: none.
  int signal = -1;
  std::optional<Stream> stream{};  // for GPU memory
  // Tensors of f32 travel in fewer bytes, if that makes them smaller; slots have what is decoded. What the
  // sums of accumulates have lost is added to later ones. p stays exact.
  Compression compression = Compression::none;
};

struct WindowGet {
  // Which in-neighbors, and the weight of each; absent: all, with weight 1.
  std::optional<std::span<const NeighborWeight>> sources{};
  bool require_mutex = false;  // of each source
  std::optional<Stream> stream{};
};

struct WindowUpdate {
  // own := self_weight * own + the sum of weight * slot over these in-neighbors. Absent weights
  // follow the graph: its own if it was set as weighted, else 1/(in-degree+1). Both or neither.
  std::optional<double> self_weight{};
  std::optional<std::span<const NeighborWeight>> sources{};
  bool reset = false;          // zeroes the slots that were read
  bool require_mutex = false;  // of this rank
  // Not null: the result goes here, of the tensor's shape, and own stays as it is.
  Output clone{};
  std::optional<Stream> stream{};
};

// Some bytes of a tensor of this rank, and where they go in the tensor of a peer. Offsets are in
// bytes.
struct WindowPage {
  std::size_t local_offset = 0;
  std::size_t remote_offset = 0;
};

class Window {
 public:
  Window() = default;  // names no window: every call is invalid_argument
  explicit Window(std::shared_ptr<WindowObject> object);

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] Output tensor() const;
  // Ascending.
  [[nodiscard]] std::span<const Rank> in_neighbors() const;
  [[nodiscard]] std::span<const Rank> out_neighbors() const;

  // Slot at each destination := weight * x. Then x := self_weight * x. x has the tensor's shape,
  // and may be the tensor.
  Status put(const Output& x, const WindowPut& how = {});
  Result<Handle> put_start(const Output& x, const WindowPut& how = {});
  // The same calls with these arguments, to be run many times (weft/prepared.h). Returns what is wrong
  // with them. What `how` names is copied.
  Result<Prepared> prepare_put(const Output& x, const WindowPut& how = {});
  Result<Prepared> prepare_accumulate(const Output& x, const WindowPut& how = {});
  Result<Prepared> prepare_write(Rank to, const Input& x, std::span<const WindowPage> pages,
                                 std::size_t page_bytes, int signal = -1,
                                 std::optional<Stream> stream = {});
  // Slot at each destination += weight * x. Then x := self_weight * x. Floating types.
  Status accumulate(const Output& x, const WindowPut& how = {});
  Result<Handle> accumulate_start(const Output& x, const WindowPut& how = {});
  // Own slot of each source := weight * the source's present tensor.
  Status get(const WindowGet& how = {});
  Result<Handle> get_start(const WindowGet& how = {});
  // Waits for nobody. Floating types. Clears the versions.
  Status update(const WindowUpdate& how = {});
  // update() with all weights 1 and reset.
  Status update_then_collect(bool require_mutex = false, std::optional<Stream> stream = {});

  // For each in-neighbor, ascending: how many of its puts, and of this rank's gets, have arrived in
  // its slot since the last update.
  [[nodiscard]] Result<std::vector<std::uint64_t>> versions();
  // The p of this rank's tensor.
  [[nodiscard]] Result<double> associated_p();
  Status set_associated_p(bool on);

  // Mutual exclusion. Each rank of a window has one mutex. lock() takes those of the given ranks,
  // in ascending order, and unlock() gives them back. The ranks are neighbors, or this rank itself.
  // If the holder of a mutex dies, the next waiter gets the mutex.
  Status lock(std::span<const Rank> ranks);
  Status unlock();

  // Waits until all started operations of this rank on this window have ended; ok, or the first
  // error among those that nobody has waited for.
  Status flush(std::optional<Stream> stream = {});

  // Raw access to the tensors of neighbors, without slots: for example pages of a cache. Pages of
  // `page_bytes` each go from x to the tensor of `to`, with one submission. The signal, if any, is
  // raised by 1 when all bytes are visible.
  Status write(Rank to, const Input& x, std::span<const WindowPage> pages, std::size_t page_bytes,
               int signal = -1, std::optional<Stream> stream = {});
  Result<Handle> write_start(Rank to, const Input& x, std::span<const WindowPage> pages,
                             std::size_t page_bytes, int signal = -1,
                             std::optional<Stream> stream = {});
  // Fills y with the bytes of the tensor of `from` that begin at this offset in bytes.
  Status read(Rank from, const Output& y, std::size_t remote_offset = 0,
              std::optional<Stream> stream = {});

  // How often this signal was raised here, by all in-neighbors together, since the window was made.
  [[nodiscard]] Result<std::uint64_t> signal(int number);
  // Waits until that is at least `count`; timed_out after the patience, at most
  // Config::deadline_ms (negative: that). If all in-neighbors have died or left, so that nobody can
  // raise it any more: peer_died or peer_left, which names them.
  Status wait_signal(int number, std::uint64_t count, std::int64_t patience_ns = -1);
  // The same as a handle, which may be waited for and may have a callback (Handle::then).
  Result<Handle> wait_signal_start(int number, std::uint64_t count, std::int64_t patience_ns = -1);

 private:
  std::shared_ptr<WindowObject> object_;
};

}  // namespace weft
