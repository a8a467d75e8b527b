// A bond's turn: every member's turn, then every bonded endpoint's.
#include "verbs/bond/interface.h"

#include <fmt/core.h>

#include <algorithm>

namespace weft::bond {
namespace {

// The time between two looks at links, rates and silence. The clock is read once in so many turns.
constexpr std::int64_t kLookNs = 10'000'000;
constexpr std::uint32_t kTurnsPerClock = 32;

}  // namespace

BondInterface::~BondInterface() {
  close();
}

bool BondInterface::progress() {
  bool news = memory_ && memory_->progress();
  for (const Member& member : networks_) news |= member.interface->progress();
  if (endpoints_.empty()) return news;
  const bool look = ++turns_ % kTurnsPerClock == 0;
  const std::int64_t time = look ? now() : 0;
  const bool due = look && time - looked_ns_ >= kLookNs;
  if (due) looked_ns_ = time;
  for (Member& member : networks_) {
    if (due) member.link = member.interface->link();  // asks the device: once, not for each peer
  }
  for (auto& [rank, endpoint] : endpoints_) {
    if (due) endpoint->look(time);
    news |= endpoint->progress();
  }
  return news || due;
}

const Status& BondInterface::link_of(const Interface& member) const {
  const auto found = std::ranges::find_if(
      networks_, [&member](const Member& known) { return known.interface.get() == &member; });
  return found->link;
}

bool BondInterface::flushed() const {
  return (!memory_ || memory_->flushed()) &&
         std::ranges::all_of(networks_,
                             [](const Member& member) { return member.interface->flushed(); }) &&
         std::ranges::all_of(endpoints_, [](const auto& known) { return known.second->flushed(); });
}

Result<Endpoint*> BondInterface::attention() {
  if (memory_) {
    WEFT_ASSIGN(Endpoint * asker, memory_->attention());
    if (asker != nullptr) return asker;
  }
  for (const Member& member : networks_) {
    WEFT_ASSIGN(Endpoint * asker, member.interface->attention());
    if (asker == nullptr) continue;
    Endpoint* whole = asker;
    if (const auto owner = owners_.find(asker); owner != owners_.end()) {
      whole = owner->second;
    } else {
      WEFT_ASSIGN(const std::string address, resolver_(asker->peer()));
      WEFT_ASSIGN(whole, connect(asker->peer(), address));
    }
    const auto bonded = endpoints_.find(asker->peer());
    if (bonded != endpoints_.end() && bonded->second.get() == whole) {
      bonded->second->progress();  // it may be a note about a path
      if (!owners_.contains(asker)) bonded->second->look_for_returns(now());
    }
    if (whole->front(kControlChannel).header != nullptr) return whole;
  }
  return nullptr;
}

std::size_t BondInterface::poll(std::span<Completion> completions) {
  std::size_t count = memory_ ? memory_->poll(completions) : 0;
  for (const Member& member : networks_) {
    if (count == completions.size()) break;
    count += member.interface->poll(completions.subspan(count));
  }
  return count;
}

void BondInterface::check() const {
  for (const auto& [rank, endpoint] : endpoints_) endpoint->check();
}

void BondInterface::close() {
  if (memory_) memory_->close();
  for (const Member& member : networks_) member.interface->close();
}

std::size_t BondInterface::endpoint_bytes() const {
  std::size_t bytes = memory_ ? memory_->endpoint_bytes() : 0;
  for (const Member& member : networks_) bytes += member.interface->endpoint_bytes();
  return bytes;
}

}  // namespace weft::bond
