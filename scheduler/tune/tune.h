// tune: finds by trying which settings are fastest, while the work that they are for goes on.
//
//   Tuner tuner({{"fusion_bytes", {64 << 10, 512 << 10, 4 << 20}, 1}, {"gather_us", {0, 200}, 0}});
//   while (work) { run a step with tuner.values(); tuner.add(its nanoseconds); }
//
// The search goes one setting at a time, and one value at a time: a value is tried against the best
// one so far, a few steps of each in turn, so that what the machine does meanwhile affects both. The
// value is taken if the median of the pairs' ratios is below 0.97; then the next one in the same
// direction is tried. A value that is much slower is given up after two pairs. When no value of any
// setting is better, the best is tried against the start once more, and the search is frozen with the
// better of the two: a lucky try is no reason to stay slower than at the start.
//
// The first step after a change does not count: buffers and plans may be new. Pure: no clock, no
// thread. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct TunedSetting {
  std::string name;
  std::vector<std::int64_t> values;  // in order: neighbors are tried one after the other
  std::size_t start = 0;             // index of the value that the search begins with
};

class Tuner {
 public:
  explicit Tuner(std::vector<TunedSetting> settings);

  // What the next step is to run with: an index into the values of each setting.
  [[nodiscard]] const std::vector<std::size_t>& now() const { return now_; }
  // The indices as one number, which other ranks turn into values; and back. The number is not 0.
  [[nodiscard]] std::uint64_t packed() const;
  [[nodiscard]] static std::vector<std::size_t> unpacked(const std::vector<TunedSetting>& settings,
                                                         std::uint64_t number);

  // A step with now() took so long. Returns whether now() has changed.
  bool add(double cost);
  [[nodiscard]] bool is_frozen() const { return phase_ == Phase::frozen; }
  // "fusion_bytes 524288, gather_us 0; after 61 steps"
  [[nodiscard]] std::string describe() const;

 private:
  enum class Phase : std::uint8_t { search, last_look, frozen };

  void next_value();
  void turn();
  void begin_trial(std::vector<std::size_t> candidate);
  void end_trial(bool is_taken);
  void last_look();

  const std::vector<TunedSetting> settings_;
  std::vector<std::size_t> start_, best_, candidate_, now_;
  Phase phase_ = Phase::search;
  // What is tried: a setting and a direction; and how many came to nothing since the last success.
  std::size_t setting_ = 0;
  bool is_upward_ = true;
  std::size_t failures_ = 0;
  // The trial: costs of the best, and ratios of the pairs.
  int skipped_ = 0;
  double best_cost_ = 0;
  std::vector<double> ratios_;
  std::uint64_t steps_ = 0;
};

}  // namespace weft
