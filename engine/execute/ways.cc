// ways: see the header.
#include "engine/execute/ways.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace weft {
namespace {

// The other way replaces this one if it takes at most so much of its time.
constexpr double kWorthIt = 0.95;
// Operations that take so much more or less than when the ways were compared: the machine has changed.
constexpr double kSlower = 1.3, kQuicker = 0.75;

PrivateWays::Way other(PrivateWays::Way way) {
  return way == PrivateWays::Way::staged ? PrivateWays::Way::read : PrivateWays::Way::staged;
}

}  // namespace

void PrivateWays::Use::imitate(Way way) {
  way_ = way;
  imitates_ = true;
  trial_ = filled_ = 0;
}

void PrivateWays::Use::measure(std::int64_t ns) {
  imitates_ = false;
  if (trial_ > 0) {
    --trial_;
    if (trial_ < kTrial / 2) trial_ns_ = trial_ns_ == 0 ? ns : std::min(trial_ns_, ns);
    if (trial_ == 0) end_trial();
    return;
  }
  recent_[static_cast<std::size_t>(next_)] = ns;
  next_ = (next_ + 1) % kRecent;
  filled_ = std::min(filled_ + 1, kRecent);
  wait_ = std::max(0, wait_ - 1);
  if (filled_ < kRecent) return;
  const auto compared = static_cast<double>(time_of(way_));
  const auto now = static_cast<double>(*std::ranges::min_element(recent_));
  const bool has_changed = compared != 0 && (now > kSlower * compared || now < kQuicker * compared);
  if (has_changed) pause_ = kFirstPause;
  if (has_changed || wait_ == 0) try_other();
}

void PrivateWays::Use::try_other() {
  time_of(way_) = *std::ranges::min_element(recent_);
  way_ = other(way_);
  trial_ = kTrial;
  trial_ns_ = 0;
}

void PrivateWays::Use::end_trial() {
  const Way before = other(way_);
  time_of(way_) = trial_ns_;
  const bool is_quicker =
      static_cast<double>(trial_ns_) <= kWorthIt * static_cast<double>(time_of(before));
  pause_ = is_quicker ? kFirstPause : std::min(2 * pause_, kLongestPause);
  if (!is_quicker) way_ = before;
  wait_ = pause_;
  filled_ = next_ = 0;
}

std::string PrivateWays::Use::describe() const {
  const auto us = [this](Way way) {
    const std::int64_t ns = ns_[static_cast<std::size_t>(way)];
    return ns == 0 ? std::string("not measured")
                   : fmt::format("{:.1f} us", static_cast<double>(ns) * 1e-3);
  };
  const char* const now = way_ == Way::staged ? "staged" : "read by the receivers";
  if (imitates_)
    return fmt::format("{} of 2^{} bytes: {}, as the lowest in-neighbor does", name(collective_),
                       magnitude_, now);
  return fmt::format("{} of 2^{} bytes: {} (staged: {}, read: {})", name(collective_), magnitude_,
                     now, us(Way::staged), us(Way::read));
}

PrivateWays::Use& PrivateWays::of(Collective collective, std::uint64_t bytes, Way first) {
  const auto magnitude = static_cast<unsigned>(std::bit_width(bytes)) - 1;
  const Use* nearest = nullptr;
  const auto distance = [&](const Use& use) {
    return std::max(use.magnitude_, magnitude) - std::min(use.magnitude_, magnitude);
  };
  for (Use& use : uses_) {
    if (use.collective_ != collective) continue;
    if (use.magnitude_ == magnitude) return use;
    const bool is_nearer = nearest == nullptr || distance(use) < distance(*nearest);
    if (use.is_settled() && is_nearer) nearest = &use;
  }
  return nearest == nullptr ? uses_.emplace_back(collective, magnitude, first)
                            : uses_.emplace_back(magnitude, *nearest);
}

std::string PrivateWays::describe() const {
  std::string text;
  for (const Use& use : uses_) text += fmt::format("  private memory, {}\n", use.describe());
  return text;
}

}  // namespace weft
