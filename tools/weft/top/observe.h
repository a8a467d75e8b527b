// Observer: what a job does, and why it is slow, from look after look at its ranks. Internal to the command.
//
//   Observer observer(allreduce_us);
//   observer.next(first);                 // nothing is known of the time between looks
//   View view = observer.next(second);
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/weft/flight/dump.h"
#include "tools/weft/predict/rates.h"

namespace weft::dumps {

inline constexpr std::size_t kCallsOfLook = 64;  // that a look has of each context

struct RailRow {
  std::string rail;
  double bytes_per_s = 0;    // between the looks
  double rate = 0;           // as measured lately, bytes/s; 0: not known
  double usual = 0;          // what it has carried for long
  int lost = 0;              // paths that do not work
  std::uint64_t losses = 0;  // between the looks

  [[nodiscard]] double share() const { return usual > 0 ? rate / usual : 0; }
};

struct RankRow {
  std::string job, host;
  Rank rank = 0;
  std::int64_t process = 0;
  double calls_per_s = 0;
  std::string last;  // its last call
  std::vector<Rank> waits_for;
  double waits_s = 0;
  double in_operations = 0;  // share of the time between the looks, as far as its records reach
  double slow = 1;           // its own work over that of the usual rank
  std::size_t names = 0;     // submitted and not ended
  std::vector<RailRow> rails;
};

struct Cause {
  std::string kind;  // of a verdict (absent, mismatch, …), slow_rank, slow_rail, lost_rail
  std::string job;
  std::vector<Rank> ranks;
  std::string rail;
  double gain = 0;  // the part of a step's time that mending it would save; 0: not known
  std::string text;
};

struct View {
  std::int64_t time_ns = 0;    // of the day
  std::vector<RankRow> ranks;  // of each job's own context
  std::vector<Cause> causes;   // of each job the worst first
};

class Observer {
 public:
  // What an allreduce takes over rails of such rates: allreduce_us().
  using Cost = std::function<Result<double>(const RatedScene&)>;
  explicit Observer(Cost cost) : cost_(std::move(cost)) {}

  // `parts`: kCallsOfLook of each context.
  [[nodiscard]] View next(std::vector<Part> parts);

 private:
  struct RailOfRank {
    std::string job;
    Rank rank = 0;
    std::string rail;
    auto operator<=>(const RailOfRank&) const = default;
  };
  void look_at_job(const std::vector<const Part*>& ranks, View& view);
  void note_rails(const RankRow& row, std::int64_t time_ns);
  void find_slow_rails(const std::vector<const RankRow*>& rows,
                       const std::vector<const Part*>& parts, std::vector<Cause>& causes) const;
  [[nodiscard]] double gain_of_rails(const std::vector<const Part*>& parts) const;

  const Cost cost_;

  std::vector<Part> before_;
  std::map<RailOfRank, std::int64_t> slow_since_;  // 0: since before it was looked at
  std::map<RailOfRank, bool> known_;
};

}  // namespace weft::dumps
