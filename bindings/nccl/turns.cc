// turns: the thread, and what wakes it.
#include "bindings/nccl/turns.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "engine/net/net.h"
#include "verbs/base/base.h"

namespace weft::nccl {
namespace {

// The time between two rounds while a link is in use or has something to send.
constexpr int kRoundMs = 2;
// The longest sleep. A rail that has failed is seen by no event.
constexpr int kSleepMs = 100;
constexpr std::uint64_t kWake = 0;

Status watch_descriptor(const Fd& events, int operation, int descriptor, std::uint32_t what,
                        std::uint64_t number) {
  epoll_event event{};
  event.events = what;
  event.data.u64 = number;
  if (::epoll_ctl(events.get(), operation, descriptor, &event) == 0) return {};
  return system_error("epoll_ctl", errno);
}

}  // namespace

// Never destroyed: NCCL's threads may outlive static objects.
Turns& Turns::get() {
  static Turns& only = *new Turns;
  static const AtExit at_exit;
  return only;
}

Turns::AtExit::~AtExit() {
  if (is_forked_child()) return;
  const std::lock_guard lock(get().thread_mutex_);
  get().exits_ = true;
  get().stop();
}

Status Turns::watch(Link& link) {
  const std::lock_guard thread_lock(thread_mutex_);
  if (exits_) return {};
  if (!thread_.joinable()) WEFT_RETURN_IF_ERROR(start());
  WEFT_ASSIGN(const int descriptor, link.wake_descriptor());
  const std::lock_guard lock(mutex_);
  WEFT_RETURN_IF_ERROR(
      watch_descriptor(events_, EPOLL_CTL_ADD, descriptor, EPOLLONESHOT, ++last_number_));
  links_[&link] = {last_number_};
  net::wake(wake_);
  return {};
}

void Turns::forget(Link& link) {
  const std::lock_guard thread_lock(thread_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (links_.erase(&link) == 0) return;
    if (const Result<int> descriptor = link.wake_descriptor(); descriptor.ok())
      (void)watch_descriptor(events_, EPOLL_CTL_DEL, *descriptor, 0, 0);
    if (!links_.empty()) return;
  }
  stop();
}

Status Turns::start() {
  WEFT_ASSIGN(wake_, net::make_wake_fd());
  events_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!events_.valid()) return system_error("epoll_create", errno);
  WEFT_RETURN_IF_ERROR(watch_descriptor(events_, EPOLL_CTL_ADD, wake_.get(), EPOLLIN, kWake));
  stops_ = false;
  WEFT_ASSIGN(thread_, start_thread("weft-nccl", [this] { run(); }));
  return {};
}

void Turns::stop() {
  if (!thread_.joinable()) return;
  stops_ = true;
  net::wake(wake_);
  thread_.join();
}

void Turns::run() {
  int wait_ms = kRoundMs;
  std::int64_t round_ns = now_ns();  // of the last look at all links
  while (!stops_) {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(events_.get(), events.data(), events.size(), wait_ms);
    const std::lock_guard lock(mutex_);
    const std::int64_t now = now_ns();
    const bool is_round = now - round_ns >= std::int64_t{kSleepMs} * 1'000'000;
    if (is_round) round_ns = now;
    for (auto& [link, watched] : links_) {
      for (int e = 0; e < count; ++e)
        watched.sleeps &= events[static_cast<std::size_t>(e)].data.u64 != watched.number;
      if (is_round) watched.sleeps = false;
    }
    net::clear_wake(wake_);
    wait_ms = take_turns() ? kSleepMs : kRoundMs;
  }
}

// An event is told once, so that a link that NCCL uses does not wake the thread each time.
bool Turns::take_turns() {
  bool all_sleep = true;
  for (auto& [link, watched] : links_) {
    if (watched.sleeps) continue;
    const Link::Rest rest = link->rest();
    watched.sleeps = rest != Link::Rest::none;
    if (rest == Link::Rest::until_event) {
      const Result<int> descriptor = link->wake_descriptor();
      watched.sleeps = descriptor.ok() && watch_descriptor(events_, EPOLL_CTL_MOD, *descriptor,
                                                           EPOLLIN | EPOLLONESHOT, watched.number)
                                              .ok();
    }
    all_sleep &= watched.sleeps;
  }
  return all_sleep;
}

}  // namespace weft::nccl
