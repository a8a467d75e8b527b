// The settings that are searched, and the steps that are measured.
#include "engine/named/tuning.h"

#include <fmt/core.h>

#include <algorithm>

namespace weft::named {
namespace {

constexpr std::int64_t kKib = 1024;
constexpr std::int64_t kMostFusedByRule = 1024 * kKib;
// A marker that does not come again for so many names is replaced: the loop has changed.
constexpr std::size_t kMostOthers = 100'000;

// The values with `start` among them; only `start`, if it was asked for.
TunedSetting setting(const char* name, std::int64_t asked, std::int64_t by_rule, bool searches,
                     std::vector<std::int64_t> values) {
  const std::int64_t start = asked < 0 ? by_rule : asked;
  if (!searches || asked >= 0) return {name, {start}, 0};
  values.push_back(start);
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  const auto found = std::ranges::find(values, start) - values.begin();
  return {name, std::move(values), static_cast<std::size_t>(found)};
}

// Pieces are cut by who sends, in multiples of a cache line.
TunedSetting piece_setting(const NamedHost& host, const NamedOptions& options) {
  constexpr std::int64_t kLine = 64;
  const auto most = static_cast<std::int64_t>(host.piece_bytes());
  std::int64_t asked = options.piece_bytes;
  if (asked >= 0) asked = std::clamp((asked + kLine - 1) / kLine * kLine, kLine, most);
  std::vector<std::int64_t> values = {32 * kKib, 64 * kKib, 128 * kKib, 256 * kKib};
  std::erase_if(values, [&](std::int64_t each) { return each >= most; });
  const bool searches = options.autotune && !host.is_one_machine();
  return setting("piece_bytes", asked, most, searches, std::move(values));
}

// Where all ranks share memory, what was packed shall still be in the cache when it is summed; over
// networks a copy costs less than a message.
std::vector<TunedSetting> settings_of(const NamedHost& host, const NamedOptions& options) {
  const bool is_near = host.is_one_machine();
  const bool searches = options.autotune;
  const std::int64_t fused =
      host.fusion_bytes() < 0 ? (is_near ? 512 : 8192) * kKib : host.fusion_bytes();
  return {setting("fusion_bytes", options.fusion_bytes, fused, searches,
                  {64 * kKib, 256 * kKib, 1024 * kKib, 4096 * kKib, 16384 * kKib}),
          setting("fused_tensor_bytes", options.fused_tensor_bytes,
                  is_near ? 64 * kKib : kMostFusedByRule, searches,
                  {16 * kKib, 64 * kKib, 256 * kKib, kMostFusedByRule}),
          setting("gather_us", options.gather_us, -1, searches, {-1, 0, 50, 200, 1000}),
          piece_setting(host, options)};
}

}  // namespace

std::size_t most_fused_tensor(const NamedOptions& options) {
  const std::int64_t asked = options.fused_tensor_bytes;
  return static_cast<std::size_t>(asked < 0 ? kMostFusedByRule : asked);
}

Tuning::Tuning(const NamedHost& host, const NamedOptions& options)
    : settings_(settings_of(host, options)) {
  for (const TunedSetting& each : settings_) now_.push_back(each.start);
  if (options.autotune && host.rank() == 0) tuner_.emplace(settings_);
}

FuseLimits Tuning::limits() const {
  return {static_cast<std::size_t>(value(0)), static_cast<std::size_t>(value(1))};
}

std::uint64_t Tuning::note(const std::vector<Decision>& decisions, std::int64_t now) {
  if (!tuner_ || tuner_->is_frozen()) return 0;
  for (const Decision& decision : decisions) {
    if (decision.kind != Decision::Kind::run) continue;
    const std::string& name = decision.request.name;
    if (marker_.empty() || others_ > kMostOthers) {
      marker_ = name;
    } else if (name != marker_) {
      ++others_;
      continue;
    }
    const std::int64_t before = std::exchange(marked_ns_, now);
    others_ = 0;
    if (before == 0 || !tuner_->add(static_cast<double>(now - before))) continue;
    if (tuner_->is_frozen())
      log(LogLevel::info, fmt::format("operations by name: {}", tuner_->describe()));
    return tuner_->packed();
  }
  return 0;
}

void Tuning::follow(std::uint64_t told) {
  now_ = Tuner::unpacked(settings_, told);
}

void Tuning::add_to(Named::Usage& usage) const {
  usage.fusion_bytes = static_cast<std::uint64_t>(value(0));
  usage.fused_tensor_bytes = static_cast<std::uint64_t>(value(1));
  usage.gather_us = value(2);
  usage.piece_bytes = static_cast<std::uint64_t>(value(3));
  usage.is_tuning = tuner_ && !tuner_->is_frozen();
}

}  // namespace weft::named
