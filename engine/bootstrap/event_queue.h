// The events of a store, in the order in which they were learnt, behind a descriptor that is
// readable while there are any. Any thread.
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

class EventQueue {
 public:
  // An eventfd that counts what is queued, as the constructor takes it.
  [[nodiscard]] static Result<Fd> make_fd();
  explicit EventQueue(Fd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  // `most`: how many may wait; one more comes from a server gone wrong and is thrown away.
  void push(const StoreEvent& event, std::size_t most);
  [[nodiscard]] std::optional<StoreEvent> next();

 private:
  const Fd fd_;
  std::mutex mutex_;
  std::deque<StoreEvent> events_;
};

}  // namespace weft
