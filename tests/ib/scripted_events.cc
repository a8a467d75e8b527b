// What a scripted device tells without being asked.
#include <sys/eventfd.h>

#include <cerrno>

#include "tests/ib/scripted_device.h"

namespace weft::ib {
namespace {

bool is_of_pair(ibv_event_type type) {
  return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
         type == IBV_EVENT_QP_ACCESS_ERR;
}

// What an event is about; nothing for those of a port or of the device.
const void* object_of(const ibv_async_event& event) {
  if (is_of_pair(event.event_type)) return event.element.qp;
  if (event.event_type == IBV_EVENT_CQ_ERR) return event.element.cq;
  return event.event_type == IBV_EVENT_SRQ_ERR ? event.element.srq : nullptr;
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  auto* own = static_cast<ScriptedContext*>(context);
  const std::scoped_lock lock(own->fabric->mutex);
  if (own->events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  eventfd_t one = 0;
  (void)eventfd_read(context->async_fd, &one);
  *event = own->events.front();
  own->events.pop_front();
  if (is_of_pair(event->event_type))
    ++static_cast<ScriptedQueuePair*>(event->element.qp)->unacknowledged;
  return 0;
}

// An event of a queue pair that is gone: libibverbs would write into freed memory here.
void ack_async_event(ibv_async_event* event) {
  if (!is_of_pair(event->event_type)) return;
  Fabric& fabric = Fabric::current();
  const std::scoped_lock lock(fabric.mutex);
  for (const auto& [number, pair] : fabric.pairs) {
    if (pair != event->element.qp) continue;
    --pair->unacknowledged;
    return;
  }
  fabric.violated("an event was acknowledged after its queue pair was destroyed");
}

const char* event_type_str(ibv_event_type) {
  return "scripted event";
}

}  // namespace

void drop_events(ibv_context* context, const void* object) {
  auto& own = static_cast<ScriptedContext&>(*context);
  const auto is_about_it = [&](const ibv_async_event& event) { return object_of(event) == object; };
  for (auto gone = std::erase_if(own.events, is_about_it); gone != 0; --gone) {
    eventfd_t one = 0;
    (void)eventfd_read(own.async_fd, &one);
  }
}

void fill_events(Library& table) {
  table.get_async_event = get_async_event;
  table.ack_async_event = ack_async_event;
  table.event_type_str = event_type_str;
}

}  // namespace weft::ib
