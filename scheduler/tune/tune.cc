// The search: trials of pairs, and which value comes next.
#include "scheduler/tune/tune.h"

#include <fmt/format.h>

#include <algorithm>

#include "verbs/base/base.h"

namespace weft {
namespace {

constexpr std::size_t kPairs = 5;
constexpr std::size_t kEarlyPairs = 2;
constexpr double kBetter = 0.97;   // below: the value is taken
constexpr double kHopeless = 1.3;  // above: it is given up early
constexpr int kWarmSteps = 1;      // after a change, that do not count
constexpr double kNotSlower = 1.0;
constexpr unsigned kBits = 8;  // of an index in packed()

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

Tuner::Tuner(std::vector<TunedSetting> settings) : settings_(std::move(settings)) {
  invariant(settings_.size() * kBits < 64, "the settings of a tuner fit in a number");
  for (const TunedSetting& setting : settings_) {
    invariant(setting.start < setting.values.size() && setting.values.size() < (1U << kBits),
              "a setting starts at one of its values");
    start_.push_back(setting.start);
  }
  best_ = candidate_ = now_ = start_;
  next_value();
}

std::uint64_t Tuner::packed() const {
  std::uint64_t number = 1;
  for (const std::size_t index : now_) number = number << kBits | index;
  return number;
}

std::vector<std::size_t> Tuner::unpacked(const std::vector<TunedSetting>& settings,
                                         std::uint64_t number) {
  std::vector<std::size_t> indices(settings.size());
  for (std::size_t s = settings.size(); s-- > 0; number >>= kBits)
    indices[s] = std::min<std::size_t>(number & ((1U << kBits) - 1), settings[s].values.size() - 1);
  return indices;
}

// The best one runs first in each pair.
void Tuner::begin_trial(std::vector<std::size_t> candidate) {
  candidate_ = std::move(candidate);
  ratios_.clear();
  skipped_ = 0;
  now_ = best_;
}

// Goes on to the next value that there is, or to the last look.
void Tuner::next_value() {
  while (failures_ < 2 * settings_.size()) {
    std::vector<std::size_t> candidate = best_;
    std::size_t& index = candidate[setting_];
    const bool exists = is_upward_ ? index + 1 < settings_[setting_].values.size() : index > 0;
    if (exists) {
      index = is_upward_ ? index + 1 : index - 1;
      begin_trial(std::move(candidate));
      return;
    }
    turn();
  }
  last_look();
}

// This way there is nothing better: next come the lower values, then the next setting.
void Tuner::turn() {
  ++failures_;
  if (!is_upward_) setting_ = (setting_ + 1) % settings_.size();
  is_upward_ = !is_upward_;
}

void Tuner::last_look() {
  if (best_ == start_) {
    phase_ = Phase::frozen;
    now_ = best_;
    return;
  }
  // The start is the yardstick now.
  phase_ = Phase::last_look;
  candidate_ = best_;
  best_ = start_;
  begin_trial(candidate_);
}

bool Tuner::add(double cost) {
  if (phase_ == Phase::frozen) return false;
  ++steps_;
  if (skipped_ < kWarmSteps) {
    ++skipped_;
    return false;
  }
  const std::vector<std::size_t> before = now_;
  skipped_ = 0;
  if (now_ != candidate_) {
    best_cost_ = cost;
    now_ = candidate_;
    return true;
  }
  ratios_.push_back(cost / std::max(best_cost_, 1e-9));
  now_ = best_;
  const double ratio = median(ratios_);
  if (ratios_.size() >= kPairs) {
    end_trial(ratio < (phase_ == Phase::last_look ? kNotSlower : kBetter));
  } else if (ratios_.size() == kEarlyPairs && ratio > kHopeless) {
    end_trial(false);
  }
  return now_ != before;
}

void Tuner::end_trial(bool is_taken) {
  if (phase_ == Phase::last_look) {
    phase_ = Phase::frozen;
    best_ = is_taken ? candidate_ : start_;
    now_ = best_;
    return;
  }
  if (is_taken) {
    best_ = candidate_;
    failures_ = 0;
  } else {
    turn();
  }
  next_value();
}

std::string Tuner::describe() const {
  std::string text;
  for (std::size_t s = 0; s < settings_.size(); ++s) {
    text +=
        fmt::format("{}{} {}", s == 0 ? "" : ", ", settings_[s].name, settings_[s].values[now_[s]]);
  }
  return text + fmt::format("; {} after {} steps", is_frozen() ? "found" : "searching", steps_);
}

}  // namespace weft
