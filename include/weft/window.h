// window: memory that neighbors write, read and add to while its owner computes.
//
//   auto window = context->win_create(weft::out(x, n), "model");          // collective
//   window->put(weft::out(x, n));            // x into our slot at every out-neighbor
//   window->update();                        // x := the average of x and the slots of in-neighbors
//   context->win_free("model");              // collective
//
// A window belongs to a graph: the one that was set when the window was made. Each rank has its own
// tensor in it (the one given to win_create, whose memory is shared with the window) and one *slot*
// for each in-neighbor, of the tensor's shape. put() and accumulate() write our slot at
// out-neighbors, get() fills slots of our own, update() combines our tensor with our slots.
//
// Neighbors never take part. put, get and accumulate end while the owner of the memory computes,
// sleeps or is stopped; where a network has no one-sided work of its own (UCX over TCP), the lane
// of the owner serves them, so that a stopped process is waited for until Config::deadline_ms.
//
// Consistency. A reader sees a slot as it was before or after one put, never a mixture. A get is
// whole against puts and updates of the owner, but not against the owner's own stores to its tensor
// while the get runs, unless both hold the mutex. Works of one rank on one window take effect one
// after another, in the order of the calls.
//
// Associated p. For push-sum, a scalar p moves with the tensor: 1 in each tensor and 0 in each slot
// at creation, and put, accumulate, get and update treat it as one more element. For programs of
// accumulate and update_then_collect with column-stochastic weights, the sum of p over all tensors,
// slots and messages under way is the number of ranks. set_associated_p(true) switches it on; while
// it is off, p stays as it is.
//
// Failures. A work that needs a rank that has died is an error that names the rank, and works with
// the other ranks go on: the death of a rank ends no window. After a failed put or accumulate, the
// slot at that rank is as before the call or as after it. The mutex of a rank that has died or left
// ends with it: require_mutex passes it over, lock() is an error that names the rank, and unlock()
// is not.
//
// GPU memory. Tensors may be GPU memory, on some ranks or on all. Slots are memory of the
// host in any case, and updates are summed there. Neighbors see a tensor on a GPU as it was at its
// owner's last put, accumulate, get, update, flush or fence, each of which copies it to the host
// first; they cannot write() to it. With a stream, a call begins behind what is queued there, without
// one behind what is queued in the default stream. What a call writes is there when it returns, or
// when its handle is done.
//
// Threads: any thread may call any function. A Window is a handle: copies name the same window.
// Lifetime: the tensor must outlive the window, which ends with win_free or with its context. Calls
// on a window that was freed are invalid_argument, and `closed` after its context was closed. A
// window keeps its memory until the last handle to it is gone.
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

// Some bytes of a tensor of ours, and where they go in the tensor of a peer. Offsets are in bytes.
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
  // Own slot of each source := weight * its tensor as it is now.
  Status get(const WindowGet& how = {});
  Result<Handle> get_start(const WindowGet& how = {});
  // Waits for nobody. Floating types. Clears the versions.
  Status update(const WindowUpdate& how = {});
  // update() with all weights 1 and reset.
  Status update_then_collect(bool require_mutex = false, std::optional<Stream> stream = {});

  // For each in-neighbor, ascending: how many of its puts and of our gets have landed in its slot
  // since the last update.
  [[nodiscard]] Result<std::vector<std::uint64_t>> versions();
  // The p of our tensor.
  [[nodiscard]] Result<double> associated_p();
  Status set_associated_p(bool on);

  // Mutual exclusion. Each rank of a window has one mutex; lock() takes those of the ranks given,
  // in ascending order, and unlock() gives them back. The ranks are neighbors of ours, or we. A
  // mutex whose holder dies is inherited by whoever waits for it.
  Status lock(std::span<const Rank> ranks);
  Status unlock();

  // Waits until all started works of ours on this window have ended; ok, or the first error among
  // those that nobody has waited for.
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
