// window: one rank's part of a window: its tensor, its slots, its ends of the edges to its
// neighbors, and the queue of its tasks. weft/window.h says what the calls mean.
//
// A WindowObject is made when all ranks have agreed on the window and exchanged where their parts
// are (Windows). It knows its lane and endpoints, no context.
//
// Threads: any thread may call the functions of the public Window. The mutex guards the slots, p
// and the writing of the tensor. The lane's token comes before the mutex. Lifetime: handles share
// the object; close() ends it before its lane goes.
#pragma once

#include <weft/window.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lane/lane.h"
#include "engine/window/on_gpu.h"
#include "engine/window/slot_reader.h"
#include "engine/window/slot_writer.h"
#include "engine/window/tasks.h"
#include "engine/window/timeline.h"
#include "verbs/sanitizers/sanitizers.h"

namespace weft {

class Context;

// A neighbor's part of the window, and the way there.
struct WindowNeighbor {
  window::Place part;
  window::Place tensor;
  Status tensor_access;    // ok, or why we cannot reach the tensor
  bool is_on_gpu = false;  // the tensor
  window::Shape shape;
  std::size_t in_index = 0;   // we are this in-neighbor of it
  std::size_t out_index = 0;  // we are this out-neighbor of it
  double weight = 0;          // of its slot in update(), if it is an in-neighbor
};

struct WindowSetup {
  std::string name;
  Output tensor;
  bool zero_init = false;
  Rank self = kNoRank;
  double self_weight = 1.0;             // in update()
  std::vector<WindowNeighbor> in, out;  // ascending
  WindowNeighbor own;                   // has no endpoint
  std::shared_ptr<Memory> part;         // ours, zeroed
  window::OwnCopies on_gpu;             // of the tensor; empty: it is host memory
  std::shared_ptr<GpuBell> bell;
  std::int64_t deadline_ms = 0;
  std::int64_t lost_path_patience_ns = 0;  // for the reason why no path to a neighbor works
  bool serves = false;                     // peers' work needs our lane
  std::vector<std::uint32_t> exposed;      // our part and our tensor, as regions
  // The way to the part of a neighbor, or to our own, by which all ranks reach its mutex.
  std::function<Result<window::Place>(Rank)> mutex_of;
  window::CheckAlive check_alive;
  window::Timeline* timeline = nullptr;  // of the context
};

namespace window {
// Has the copies begin, and waits until they are over. token
[[nodiscard]] Status run_copies(Lane& lane, Staging& staging, Status (Staging::*begin)(),
                                std::int64_t patience_ns);
}  // namespace window

class WindowObject : public std::enable_shared_from_this<WindowObject> {
 public:
  WindowObject(WindowSetup setup, const std::shared_ptr<Lane>& lane);
  // The window of this name, for algorithms that need more than the public calls; null: there is none. engine/context
  // has the windows.
  [[nodiscard]] static std::shared_ptr<WindowObject> of(const Context& context,
                                                        std::string_view name);
  // Fills slots and words. Nobody else may use the window before all ranks have done this.
  [[nodiscard]] Status open();

  [[nodiscard]] const std::string& name() const { return setup_.name; }
  [[nodiscard]] const Output& tensor() const { return setup_.tensor; }
  [[nodiscard]] std::span<const Rank> in_ranks() const { return in_ranks_; }
  [[nodiscard]] std::span<const Rank> out_ranks() const { return out_ranks_; }

  // The calls of Window. With a handle the call only begins.
  Status put(bool accumulates, const Output& x, const WindowPut& how, Handle* handle);
  Status get(const WindowGet& how, Handle* handle);
  // `p`: not empty: becomes p of the slot of each in-neighbor, as it was read.
  Status update(const WindowUpdate& how, std::span<double> p = {});
  [[nodiscard]] Result<std::vector<std::uint64_t>> versions();
  [[nodiscard]] Result<double> associated_p();
  Status set_associated_p(bool on);
  Status lock(std::span<const Rank> ranks);
  Status unlock();
  Status flush(const std::optional<Stream>& stream = {});
  Status write(Rank to, const Input& x, std::span<const WindowPage> pages, std::size_t page_bytes,
               int signal, const std::optional<Stream>& stream, Handle* handle);
  Status read(Rank from, const Output& y, std::size_t remote_offset,
              const std::optional<Stream>& stream);
  // Whether a call that moves data to these out-neighbors, to their slots or tensors, waits for nobody, now.
  [[nodiscard]] bool is_quick(std::span<const Rank> to, window::Place WindowNeighbor::*memory);
  Result<Prepared> prepare_put(bool accumulates, const Output& x, const WindowPut& how);
  Result<Prepared> prepare_write(Rank to, const Input& x, std::span<const WindowPage> pages,
                                 std::size_t page_bytes, int signal,
                                 const std::optional<Stream>& stream);
  [[nodiscard]] Result<std::uint64_t> signal(int number);
  Status wait_signal(int number, std::uint64_t count, std::int64_t patience_ns, Handle* handle);

  // The window has ended: later calls return this error.
  void close(const Status& why);
  // ok, or why calls are refused.
  [[nodiscard]] Status check_open() const;
  // Refuses calls from now on, until resume(). An error, which changes nothing, if calls are under
  // way or mutexes are held.
  [[nodiscard]] Status suspend();
  void resume();
  [[nodiscard]] const WindowSetup& setup() const { return setup_; }
  // For people: the tensor, and how its neighbors are reached. token
  [[nodiscard]] std::string describe() const;

  // For tasks.
  [[nodiscard]] std::string_view title() const { return title_; }
  [[nodiscard]] const window::TensorShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t patience_ns() const { return setup_.deadline_ms * 1'000'000; }
  [[nodiscard]] std::int64_t deadline_ns() const { return now_ns() + patience_ns(); }
  [[nodiscard]] bool is_turn_of(const window::Task& task) const {
    return turns_.front().who == &task;
  }
  void end_turn(const window::Task& task);
  // A call with these has ended.
  void settle(const window::Locks& locks);
  [[nodiscard]] Status check_alive(const window::Place& place) const {
    return setup_.check_alive(place.rank, place.endpoint);
  }
  [[nodiscard]] Status check_alive(Rank rank) const { return setup_.check_alive(rank, nullptr); }
  [[nodiscard]] std::int64_t lost_path_patience_ns() const { return setup_.lost_path_patience_ns; }
  // Whether no path works any more to this neighbor.
  [[nodiscard]] bool has_lost_path_to(Rank rank) const;
  [[nodiscard]] double p_to_send();
  // x := weight * x, and p likewise.
  void scale(const Output& x, double weight);
  // Neighbors see our tensor as it was fetched from a GPU.
  void publish();
  [[nodiscard]] Status make_incoming(window::SlotReader& reader);
  // What was got becomes the slot's value.
  [[nodiscard]] Status fill_slot(window::SlotReader& reader, double weight, double p);

 private:
  class UpdateTurn;
  // A write whose arguments are right.
  struct Write {
    std::size_t index = 0;  // of the out-neighbor
    std::vector<window::RawTask::Part> parts;
    int signal = -1;
  };
  // A call that has its turn or waits for it.
  struct Turn {
    const void* who = nullptr;  // its task, or its UpdateTurn
    std::uint32_t number = 0;   // in the timeline
  };

  [[nodiscard]] Status invalid(std::string_view what, std::string_view why) const;
  [[nodiscard]] Status check_tensor(std::string_view what, const Output& x) const;
  // The same status, with the call and the window in its text.
  [[nodiscard]] Status named(std::string_view what, const Status& status) const;
  [[nodiscard]] Status check_raw(std::string_view what, const void* data, std::size_t count,
                                 DataType type) const;
  // Our tensor as neighbors see it.
  [[nodiscard]] std::byte* host_tensor() const {
    const auto& image = setup_.on_gpu.image;
    return image == nullptr ? static_cast<std::byte*>(setup_.tensor.data) : image->data();
  }
  // The copies of a call, with that of our tensor if it is on a GPU.
  [[nodiscard]] Result<window::Staging> stage(const std::optional<Stream>& stream) const;
  // What the host has in the place of x; x itself if it is host memory.
  [[nodiscard]] Result<Output> place(const Output& x, window::Staging& staging,
                                     window::Staging::Use use) const;
  [[nodiscard]] Status check_stream(std::string_view what, const std::optional<Stream>& stream,
                                    const window::Staging& staging) const;
  [[nodiscard]] Status check_signal(std::string_view what, int number) const;
  [[nodiscard]] Status check_weight(std::string_view what, double weight) const;
  [[nodiscard]] Status check_put(bool accumulates, const Output& x, const WindowPut& how) const;
  [[nodiscard]] Result<Write> check_write(Rank to, const Input& x,
                                          std::span<const WindowPage> pages, std::size_t page_bytes,
                                          int signal) const;
  // For each neighbor named, or for all: what `take(index, weight)` makes of it.
  [[nodiscard]] Status for_each(std::string_view what, std::string_view list,
                                std::span<const Rank> neighbors,
                                const std::optional<std::span<const NeighborWeight>>& given,
                                const std::function<void(std::size_t, double)>& take) const;
  [[nodiscard]] Result<std::unique_ptr<window::Locks>> locks_of(std::string_view what,
                                                                std::vector<Rank> ranks,
                                                                window::Gone gone);
  // token
  Status write(Write write, const std::optional<Stream>& stream, Handle* handle);
  Status put_now(bool accumulates, const Output& x, const WindowPut& how);
  void line_up(const void* who, window::CallName call) {
    turns_.push_back({who, setup_.timeline->begins(names_, call)});
  }
  Status run(Lane& lane, window::Task& task);
  Status start_turn(const std::shared_ptr<Lane>& lane, std::shared_ptr<window::Task> task,
                    Handle& handle);
  static Status start(const std::shared_ptr<Lane>& lane, std::shared_ptr<OperationStep> task,
                      Handle& handle);
  // Takes and gives back locks of this call.
  Status take(Lane& lane, window::Locks& locks);
  Status give_back(Lane& lane, window::Locks& locks);
  // tensor-shaped memory := the sum of the terms. Readers of our tensor are kept from half of it.
  Status write(std::span<const Term> terms, void* destination, double divisor = 1.0);
  void publish_fetched();  // mutex_ is held
  Status combine_slots(const WindowUpdate& how, std::span<const double> weights, double self_weight,
                       std::span<double> slot_p);
  // Begins to tell the in-neighbors what was read of their messages.
  void tell(Lane& lane);
  [[nodiscard]] window::Head& head() const { return *setup_.part->as<window::Head>(); }
  [[nodiscard]] std::uint64_t count_signal(int number);
  // ok, or, if all in-neighbors are gone, the error that names them.
  [[nodiscard]] Status check_in_neighbors() const;

  WindowSetup setup_;
  const std::string title_;  // «window "model"», for messages
  const window::TensorShape shape_;
  const window::Timeline::Names names_;
  const std::weak_ptr<Lane> lane_;
  std::vector<Rank> in_ranks_, out_ranks_;

  // The holder of the lane's token.
  std::vector<std::unique_ptr<window::SlotWriter>> writers_;  // by out-neighbor
  bool are_mapped_ = true;                                    // the parts of all out-neighbors
  std::shared_ptr<window::PutTask> put_;  // of blocking calls, used again; null while it runs
  std::deque<Turn> turns_;
  std::map<Rank, std::unique_ptr<window::Hand>> hands_;
  LockAttempts attempts_;
  std::unique_ptr<window::Locks> held_;  // by lock()
  Status unheard_;                       // the first error of a task that had a handle, for flush()

  std::mutex mutex_;
  std::vector<std::unique_ptr<window::SlotReader>> readers_;  // by in-neighbor
  std::atomic<bool> has_p_ = false;
#ifdef WEFT_THREAD_SANITIZER
  window::Tensor sum_;
#endif
  std::vector<std::array<std::uint64_t, kWindowSignals>> raised_;  // as seen, by in-neighbor

  mutable std::mutex open_mutex_;
  Status ended_;
  bool is_suspended_ = false;
  std::atomic<bool> is_open_ = true;  // neither of the two
};

}  // namespace weft
