// search: which values `weft tune` tries, and which it takes.
//
//   1. the algorithm of an allreduce, size by size, beside the choice by rule
//   2. one setting after the other, each value beside the defaults on all rows; kept if the whole gets faster
//   3. fusion of tensors by name
//   4. the check: all that was taken, beside the defaults, on all rows
//
// Every rank runs the same search on the same numbers (bench.h). Nothing here reads a clock.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "tools/weft/tune/bench.h"

namespace weft {

struct TuneFound {
  Profile profile;
  bool is_better = false;  // than the defaults, as the check has seen it
  std::string why_not;     // if it is not
  std::vector<std::string>
      notes;  // rows that are too slow for the time, settings that the user made
};

class Search {
 public:
  // `set`: variables that the user has set, which stay as they are. `say`: progress.
  Search(Bench& bench, const std::vector<std::size_t>& sizes, std::set<std::string> set,
         const Config& config, std::function<void(const std::string&)> say);

  Status run();
  // Valid at any time, also after an error of run().
  [[nodiscard]] TuneFound found() const;

 private:
  struct Candidate {
    std::string setting;
    std::string value;
  };

  Status warm_up(Stand& stand);
  Result<Stand> open(const Settings& settings);
  Status choose_rows();
  Status try_algorithms();
  Status try_algorithms_at(std::size_t size, double seconds);
  [[nodiscard]] std::vector<Candidate> candidates() const;
  Status try_settings();
  Status try_setting(const Candidate& candidate, double seconds);
  Status try_fusion();
  Status check();
  [[nodiscard]] std::vector<TuneRow> changed_rows() const;
  Status check_once(const std::vector<TuneRow>& changed);
  void take_back(const Profile::Row& loser);
  [[nodiscard]] Settings settings() const;
  [[nodiscard]] std::string table() const;
  [[nodiscard]] std::string usual_of(const std::string& setting) const;

  Bench& bench_;
  const std::set<std::string> set_;
  const Config config_;
  const std::function<void(const std::string&)> say_;
  std::vector<std::size_t> sizes_;
  std::vector<TuneRow> rows_;
  std::vector<std::string> algorithms_;  // by size; "auto": by rule
  Settings taken_;                       // without the algorithms
  double named_us_ = 0;                  // what tensors by name take with the defaults
  double best_ = 1;                      // times as fast as the defaults, over all rows
  Stand usual_;
  TuneFound found_;
};

}  // namespace weft
