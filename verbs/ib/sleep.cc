// Sleeping and waking, and what the device tells without being asked.
#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

// The longest sleep while a wake-up could be missed, or while the peer may write a word that no
// event announces.
constexpr std::int64_t kNapNs = 1'000'000;
constexpr std::int64_t kLongestAlarmNs = 1'000'000'000;

}  // namespace

// A device may end a queue pair, a port, or itself. Other interfaces on it may have read what
// concerns this one, and the other way round.
void IbInterface::look_for_events() {
  if (is_gone_) return;
  const DeviceNews news = events_->take();
  if (news.is_room_wanted) registrations_->give_room();
  for (const DeviceEvent& event : news.events) {
    if (is_gone_) return;
    if (event.port == 0 || event.port == ib_.port) take_event(event.type, event.queue_pair);
  }
}

void IbInterface::take_event(ibv_event_type type, std::uint32_t queue_pair) {
  const auto why = [&](std::string_view path) {
    return fmt::format("{}: {}", path, library_.event_type_str(type));
  };
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: {
      const auto found = queues_.find(queue_pair);
      if (found == queues_.end()) return;
      IbEndpoint& endpoint = *found->second.endpoint;
      return endpoint.fail(Status(Code::unavailable, why(endpoint.path()), endpoint.peer()));
    }
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
      if (type == IBV_EVENT_DEVICE_FATAL) leave_device();
      for (auto& [nonce, endpoint] : known_)
        endpoint->fail(Status(Code::unavailable, why(endpoint->path()), endpoint->peer()));
      return;
    case IBV_EVENT_PORT_ERR:
      log(LogLevel::info, why(name_));
      return;
    case IBV_EVENT_GID_CHANGE:
      log(LogLevel::info, why(name_));
      return look_for_gids();
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_LID_CHANGE:
      log(LogLevel::info, why(name_));
      return look_at_port();
    default:
      return;
  }
}

// If a device is gone, its descriptors stay readable although there is nothing to read. So they are
// not polled any more.
void IbInterface::leave_device() {
  is_gone_ = true;
  for (const int fd : {channel_->fd, device_->context()->async_fd})
    ::epoll_ctl(descriptor_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// The subnet manager may give the port another LID, and what a port is like is not known before its
// cable is in. Greetings carry what holds now.
void IbInterface::look_at_port() {
  ibv_port_attr now{};
  const auto port = static_cast<std::uint8_t>(ib_.port);
  if (library_.query_port(device_->context(), port, &now) == 0) port_ = now;
}

// From here on everything that is posted leaves at once, because the caller looks once more at what
// has come and then sleeps without another turn.
bool IbInterface::arm() {
  armed_ = true;
  report_releases();
  pump_all();
  bool safe = pumping_.empty() && set_alarm();
  if (is_gone_) return safe;
  for (ibv_cq* queue : {arrivals_queue_.get(), sends_queue_.get()})
    safe = library_.req_notify_cq(queue, 0) == 0 && safe;
  return safe;
}

// An alarm ends the sleep for what no event of the device announces: greetings that are to be
// repeated, and the word that a peer writes without a message.
bool IbInterface::set_alarm() {
  if (connecting_.empty() && starved_.empty() && !datagrams_.has_ended()) return true;
  std::int64_t ns = now_ns() + (starved_.empty() ? kLongestAlarmNs : kNapNs);
  if (datagrams_.has_ended()) ns = std::min(ns, std::max(datagrams_.again_ns(), now_ns()));
  for (const IbEndpoint* endpoint : connecting_) ns = std::min(ns, endpoint->next_ns());
  itimerspec when{};
  when.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
  return ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0;
}

void IbInterface::disarm() {
  armed_ = false;
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (library_.get_cq_event(channel_.get(), &queue, &unused) == 0)
    library_.ack_cq_events(queue, 1);
  std::uint64_t woken = 0;
  for (const Fd* fd : {&woken_, &alarm_}) {
    if (::read(fd->get(), &woken, sizeof woken) < 0) woken = 0;  // the other one woke us
  }
  look_for_events();
}

void IbInterface::wait_for_event(std::int64_t timeout_ns) {
  const std::int64_t ns = std::max<std::int64_t>(timeout_ns, 0);
  const timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
  pollfd event{descriptor_.get(), POLLIN, 0};
  ppoll(&event, 1, &timeout, nullptr);
}

// After arming, what had come before is looked for once more.
void IbInterface::sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) {
  const bool safe = arm();
  const std::uint64_t before = arrivals_;
  progress();
  if (!ready() && arrivals_ == before)
    wait_for_event(safe ? timeout_ns : std::min(timeout_ns, kNapNs));
  disarm();
  progress();
}

void IbInterface::wake() {
  const std::uint64_t once = 1;
  if (::write(woken_.get(), &once, sizeof once) < 0) return;  // it is awake already
}

void IbInterface::drain(const std::function<bool()>& done, const Deadline& deadline) {
  while (!done() && !deadline.passed())
    sleep(std::min(deadline.ns() - now_ns(), 10 * kNapNs), done);
}

}  // namespace weft::ib
