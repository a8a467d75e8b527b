// Sleeping on all members at once, by their descriptors.
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// The longest sleep when a wake-up could be missed.
constexpr int kBlindSleepMs = 1;

}  // namespace

void BondInterface::sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) {
  if (networks_.empty()) return memory_->sleep(timeout_ns, ready);
  std::array<pollfd, kMostMembers + 1> waiting;
  nfds_t count = 0;
  const bool safe = arm();
  const auto add = [&](Interface& interface) {
    const Result<int> descriptor = interface.descriptor();
    if (descriptor.ok()) waiting[count++] = {*descriptor, POLLIN, 0};
  };
  if (memory_) add(*memory_);
  for (const Member& member : networks_) add(*member.interface);
  progress();
  if (!ready()) {
    const std::int64_t most = safe ? std::numeric_limits<int>::max() : kBlindSleepMs;
    const std::int64_t ms = std::clamp<std::int64_t>((timeout_ns + 999'999) / 1'000'000, 0, most);
    ::poll(waiting.data(), count, static_cast<int>(ms));
  }
  disarm();
  progress();
}

// Any member can be woken; the first is.
void BondInterface::wake() {
  (memory_ ? *memory_ : *networks_.front().interface).wake();
}

// A descriptor that is readable when one of the members' is. Only those who cannot call sleep() ask
// for it.
Result<int> BondInterface::descriptor() {
  if (all_.valid()) return all_.get();
  Fd all(epoll_create1(EPOLL_CLOEXEC));
  if (!all.valid()) return system_error("epoll_create", errno);
  const auto add = [&](Interface& interface) -> Status {
    WEFT_ASSIGN(const int descriptor, interface.descriptor());
    epoll_event readable{};
    readable.events = EPOLLIN;
    if (epoll_ctl(all.get(), EPOLL_CTL_ADD, descriptor, &readable) == 0) return {};
    return system_error("epoll_ctl", errno);
  };
  if (memory_) WEFT_RETURN_IF_ERROR(add(*memory_));
  for (const Member& member : networks_) WEFT_RETURN_IF_ERROR(add(*member.interface));
  all_ = std::move(all);
  return all_.get();
}

bool BondInterface::arm() {
  bool safe = !memory_ || memory_->arm();
  for (const Member& member : networks_) safe = member.interface->arm() && safe;
  return safe;
}

void BondInterface::disarm() {
  if (memory_) memory_->disarm();
  for (const Member& member : networks_) member.interface->disarm();
}

}  // namespace weft::bond
