// flows: what is left of each is worked out only when its rate changes.
#include "scheduler/simulate/flows.h"

#include <algorithm>

namespace weft::simulator {

std::uint32_t Flows::take_number() {
  if (!free_.empty()) {
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  flows_.emplace_back();
  parts_.resize(flows_.size() * paths_);
  if (flows_.size() * paths_ > strands_) {
    strands_ = std::max<std::size_t>(1024, 2 * strands_);
    strands_ = std::max(strands_, flows_.size() * paths_);
    shares_->reserve(strands_);
    agenda_.reserve(strands_ / paths_ + 1);
  }
  return static_cast<std::uint32_t>(flows_.size() - 1);
}

void Flows::start(Owner owner, double bytes, std::span<const Path> paths, double now) {
  const std::uint32_t number = take_number();
  flows_[number] = {owner, bytes, 0, now, static_cast<std::uint32_t>(paths.size())};
  const std::size_t base = number * paths_;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    parts_[base + i] = {};
    shares_->add(static_cast<std::uint32_t>(base + i), paths[i], now);
  }
}

// Brings what is left, and what each part carried, up to now at the rates until now.
void Flows::advance(std::uint32_t number, double now) {
  Flow& flow = flows_[number];
  const double us = now - flow.since_us;
  flow.remaining = std::max(0.0, flow.remaining - flow.rate * us);
  flow.since_us = now;
  for (std::size_t part = number * paths_; part < number * paths_ + flow.paths; ++part)
    parts_[part].carried += parts_[part].rate * us;
}

void Flows::settle(double now) {
  changed_.clear();
  shares_->settle(changed_);
  for (std::uint32_t& strand : changed_) strand /= static_cast<std::uint32_t>(paths_);
  if (paths_ > 1) {
    std::ranges::sort(changed_);
    changed_.erase(std::ranges::unique(changed_).begin(), changed_.end());
  }
  for (const std::uint32_t number : changed_) {
    advance(number, now);
    Flow& flow = flows_[number];
    flow.rate = 0;
    for (std::size_t part = number * paths_; part < number * paths_ + flow.paths; ++part) {
      parts_[part].rate = shares_->rate(static_cast<std::uint32_t>(part));
      flow.rate += parts_[part].rate;
    }
    agenda_.set(number, now + flow.remaining / flow.rate);
  }
}

Flows::Ended Flows::end_next(double now) {
  const std::uint32_t number = agenda_.front();
  agenda_.pop();
  advance(number, now);
  const auto base = static_cast<std::uint32_t>(number * paths_);
  const Ended ended{flows_[number].owner, shares_->bottleneck(base)};
  for (std::uint32_t part = base; part < base + flows_[number].paths; ++part)
    shares_->remove(part, parts_[part].carried, now);
  free_.push_back(number);
  return ended;
}

}  // namespace weft::simulator
