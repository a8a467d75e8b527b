// event_queue: see the header.
#include "engine/bootstrap/event_queue.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace weft {

Result<Fd> EventQueue::make_fd() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!fd.valid()) return system_error("eventfd", errno);
  return fd;
}

void EventQueue::push(const StoreEvent& event, std::size_t most) {
  const std::lock_guard lock(mutex_);
  if (events_.size() >= most) return;
  events_.push_back(event);
  ::eventfd_write(fd_.get(), 1);
}

std::optional<StoreEvent> EventQueue::next() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  eventfd_t one = 0;
  ::eventfd_read(fd_.get(), &one);
  StoreEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace weft
