// Reading a device's events, and dealing them out.
#include "verbs/ib/device_events.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

namespace weft::ib {

DeviceEvents::Listener::Listener(DeviceEvents& device, int woken) : device_(device), woken_(woken) {
  const std::scoped_lock lock(device_.mutex_);
  device_.listeners_.push_back(this);
  if (device_.is_gone_) tell({IBV_EVENT_DEVICE_FATAL}, true);
}

DeviceEvents::Listener::~Listener() {
  const std::scoped_lock lock(device_.mutex_);
  std::erase(device_.listeners_, this);
}

DeviceNews DeviceEvents::Listener::take() {
  const std::scoped_lock lock(device_.mutex_);
  device_.read(this);
  return std::exchange(news_, {});
}

void DeviceEvents::Listener::forget(std::uint32_t queue_pair) {
  const std::scoped_lock lock(device_.mutex_);
  std::erase_if(news_.events,
                [&](const DeviceEvent& event) { return event.queue_pair == queue_pair; });
}

void DeviceEvents::Listener::ask_for_room() {
  const std::scoped_lock lock(device_.mutex_);
  for (Listener* other : device_.listeners_) {
    if (other == this || std::exchange(other->news_.is_room_wanted, true)) continue;
    other->wake();
  }
}

void DeviceEvents::Listener::tell(const DeviceEvent& event, bool wakes) {
  if (std::ranges::find(news_.events, event) != news_.events.end()) return;
  news_.events.push_back(event);
  if (wakes) wake();
}

// An eventfd that takes no more has woken its interface already.
void DeviceEvents::Listener::wake() const {
  (void)eventfd_write(woken_, 1);
}

bool DeviceEvents::is_gone() {
  const std::scoped_lock lock(mutex_);
  read(nullptr);
  return is_gone_;
}

// Whoever is named by an event lives until the event is acknowledged: destroying its object waits
// for that.
void DeviceEvents::read(const Listener* reader) {
  ibv_async_event event{};
  while (!is_gone_ && library_.get_async_event(context_, &event) == 0) {
    deal_out(event, reader);
    library_.ack_async_event(&event);
  }
}

// The events that are not named here are of nothing that is used.
void DeviceEvents::deal_out(const ibv_async_event& event, const Listener* reader) {
  void* owner = nullptr;
  DeviceEvent told{event.event_type};
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      owner = event.element.qp->qp_context;
      told.queue_pair = event.element.qp->qp_num;
      break;
    case IBV_EVENT_CQ_ERR:
      owner = event.element.cq->cq_context;
      break;
    case IBV_EVENT_SRQ_ERR:
      owner = event.element.srq->srq_context;
      break;
    case IBV_EVENT_DEVICE_FATAL:
      is_gone_ = true;
      return tell_all(told, reader);
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
      told.port = event.element.port_num;
      return tell_all(told, reader);
    default:
      return;
  }
  auto* const listener = static_cast<Listener*>(owner);
  if (listener != nullptr) listener->tell(told, listener != reader);
}

void DeviceEvents::tell_all(const DeviceEvent& event, const Listener* reader) {
  for (Listener* listener : listeners_) listener->tell(event, listener != reader);
}

}  // namespace weft::ib
