// tuning: what is fused, how long ranks wait for more and how large pieces are, as the options say, by rule, or found by
// trying (NamedOptions::autotune). Internal to the module.
//
// Rank 0 measures the time from one run of a name to the next, which is a step of a training loop, and
// drives the search (scheduler/tune). What comes next travels in the exchange of the next cycle, so
// all ranks change between the same two cycles and fuse alike.
#pragma once

#include <weft/named.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/named/host.h"
#include "scheduler/fuse/fuse.h"
#include "scheduler/negotiate/negotiate.h"
#include "scheduler/tune/tune.h"

namespace weft::named {

// The largest tensor that these options, or a search under them, may ever fuse with others.
[[nodiscard]] std::size_t most_fused_tensor(const NamedOptions& options);

// Belongs to the holder of the lane's token.
class Tuning {
 public:
  Tuning(const NamedHost& host, const NamedOptions& options);

  [[nodiscard]] FuseLimits limits() const;
  [[nodiscard]] std::int64_t gather_us() const { return value(2); }  // negative: by rule
  [[nodiscard]] std::size_t piece_bytes() const { return static_cast<std::size_t>(value(3)); }

  // Rank 0: these names run now. Returns what all ranks shall be told, or 0.
  [[nodiscard]] std::uint64_t note(const std::vector<Decision>& decisions, std::int64_t now);
  // All ranks: this was told.
  void follow(std::uint64_t told);
  void add_to(Named::Usage& usage) const;

 private:
  [[nodiscard]] std::int64_t value(std::size_t setting) const {
    return settings_[setting].values[now_[setting]];
  }

  const std::vector<TunedSetting> settings_;
  std::vector<std::size_t> now_;
  std::optional<Tuner> tuner_;  // at rank 0, if it is asked for
  // The name whose runs are the steps, since when, and how many others have run since.
  std::string marker_;
  std::int64_t marked_ns_ = 0;
  std::size_t others_ = 0;
};

}  // namespace weft::named
