// event_queue: the events of a store, in the order in which they were received. A descriptor is
// readable while there are any. For any thread.
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

class EventQueue {
 public:
  // Makes the eventfd that the constructor takes. It counts the queued events.
  [[nodiscard]] static Result<Fd> make_fd();
  explicit EventQueue(Fd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Adds an event. If `most` events are queued already, the event is dropped.
  void push(const StoreEvent& event, std::size_t most);
  [[nodiscard]] std::optional<StoreEvent> next();

 private:
  const Fd fd_;
  std::mutex mutex_;
  std::deque<StoreEvent> events_;
};

}  // namespace weft
