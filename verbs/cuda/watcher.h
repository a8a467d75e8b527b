// watcher: a thread that looks whether events of the driver are over, and rings for those who wait.
// Internal to the module.
//
// The driver's own way, a function of the host in a stream, is not used. It cannot be queued while
// another thread copies pageable memory behind a stream that is held (seen on driver 580), and that
// thread may be one that waits for the operation. And a GPU that several processes share goes to
// another one while a stream waits for its function. Looking at an event is always possible.
//
// The thread lives while there is something to look at.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "verbs/cuda/driver.h"

namespace weft::cuda {

// An event that was recorded. It goes back to its pool with this object.
class Recorded {
 public:
  // Records in the stream. Events are used again: one cannot be made while another thread waits in
  // the driver, as above.
  static Result<std::shared_ptr<Recorded>> in(const Driver& driver, void* context, void* stream,
                                              const std::string& what);
  // Sees to it that so many events are free: for what is recorded while streams are held.
  static Status reserve(const Driver& driver, void* context, std::size_t count,
                        const std::string& what);
  Recorded(const Driver& driver, void* context, void* event)
      : driver_(driver), context_(context), event_(event) {}
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded();

  // kNotReady, or what became of it.
  [[nodiscard]] Answer look() const;
  void wait() const;
  [[nodiscard]] void* event() const { return event_; }

 private:
  const Driver& driver_;
  void* const context_;
  void* const event_;
};

// What is to be called once an event is over, by whoever sees it first.
class Waker {
 public:
  explicit Waker(std::function<void()> call) : call_(std::move(call)) {}
  // Calls it, and lets go what it holds; from the second time on without effect. Any thread.
  void ring() {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex_);
      call = std::exchange(call_, nullptr);
    }
    if (call) call();
  }

 private:
  std::mutex mutex_;
  std::function<void()> call_;
};

// Rings once the event is over, or failed. `exhausted`: no thread could be started.
[[nodiscard]] Status watch(std::shared_ptr<const Recorded> event, std::shared_ptr<Waker> waker);
// Calls `call` at that time (now_ns()), unless `still` has gone by then.
[[nodiscard]] Status watch_until(std::int64_t end_ns, std::weak_ptr<void> still,
                                 std::function<void()> call);

}  // namespace weft::cuda
