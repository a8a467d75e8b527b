// bench: how `weft tune` measures. Two stands, each a context with its own settings, are timed in rounds that take turns;
// what counts is the median of the rounds' ratios, because what the machine does meanwhile affects both sides of a round.
//
//   all ranks meet in a barrier of a third context; [ the operation ]; …; all ranks agree on the slowest rank's times
//
// What ranks agree on also carries whether one of them was told to stop, and how long rank 0 has worked. So all ranks see
// the same numbers and take the same decisions, and nobody has to tell them. It works between hosts whose clocks differ.
//
// For one thread of each rank. tools/weft/common/stop.h has the signals. All functions but settings() are collective.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/context/context.h"

namespace weft {

using Settings = std::vector<std::pair<std::string, std::string>>;  // names of variables, values

// What is timed.
struct TuneRow {
  enum class What : std::uint8_t { allreduce, neighbor_allreduce, allgather, named };
  What what = What::allreduce;
  std::size_t bytes = 0;  // of one rank's input; named: of each tensor
  double us = 0;          // about so long with the defaults

  [[nodiscard]] std::string name() const;
};

// A context, which several stands may share, and how its operations are called.
struct Stand {
  std::shared_ptr<Context> context;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
  std::int64_t fusion_bytes = -1;
  std::optional<Named> named{};  // made by the first call
};

// The first stand's time over the second's: how many times as fast the second is.
struct Pairing {
  double usual_us = 0;  // medians
  double us = 0;
  double times = 1;
  int rounds = 0;
};

class Bench {
 public:
  static Result<std::unique_ptr<Bench>> open(const Config& config, std::shared_ptr<Store> store,
                                             double seconds, std::size_t most_bytes);

  // A context with the defaults and these settings; null: one of the ranks cannot have it, and `why` says why, at that
  // rank. An error: this rank is out of the job.
  Result<Stand> stand(const Settings& settings, std::string& why);
  Result<double> time_once(Stand& stand, const TuneRow& row);  // us of one call, after two others
  // Rounds until `seconds` are over, at least `least` of them. A stand whose times are below `give_up`
  // in both of the first two rounds gets no more.
  Result<Pairing> pair(Stand& usual, Stand& other, const TuneRow& row, double seconds, int least,
                       double give_up = 0);
  // The worst of all ranks' numbers; how a rank tells that something failed.
  Result<double> worst(double mine);

  [[nodiscard]] bool leads() const { return control_->rank() == 0; }
  [[nodiscard]] int size() const { return control_->size(); }
  [[nodiscard]] Context& control() { return *control_; }
  // As agreed last.
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }
  [[nodiscard]] double spent_s() const { return spent_s_; }
  [[nodiscard]] double left_s() const { return seconds_ - spent_s_; }

 private:
  Bench(const Config& config, std::shared_ptr<Store> store, double seconds);
  Result<std::vector<double>> laps(Stand& stand, const TuneRow& row, int laps, int batch);
  Status call(Stand& stand, const TuneRow& row);
  Status call_by_name(Stand& stand, const TuneRow& row);
  Status agree(std::vector<double>& numbers);

  const Config config_;
  const std::shared_ptr<Store> store_;
  const double seconds_;
  const std::int64_t begin_ns_;
  std::unique_ptr<Context> control_;
  std::shared_ptr<void> x_, y_;
  bool is_stopped_ = false;
  double spent_s_ = 0;
};

}  // namespace weft
