// Rounds of trials. Rank 0 chooses the laps of each trial from how long the one before took.
#include "tools/weft/perf/measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weft {
namespace {

constexpr int kRounds = 9;
constexpr int kFewestRounds = 5;
constexpr int kMostLaps = 400;  // of a trial: a record of 6 KiB per rank
// A channel's first operation asks its peers for buffers; there are eight channels. Two at a time, as
// long as the time of a measurement is not over.
constexpr int kWarmUpLaps = 8;
constexpr int kWarmUpStep = 2;

// One contender's standing between its trials.
struct Turn {
  Score score;
  double lap_s = 0;  // wall time of a lap, rewriting and checking included; known at rank 0
  std::uint64_t next_lap = 1;
};

class Rounds {
 public:
  Rounds(const Contest& contest, std::vector<Contender>& contenders, Seat& seat)
      : contest_(contest), contenders_(contenders), seat_(seat), turns_(contenders.size()) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(warm_up());
    for (Turn& turn : turns_) turn.score = {};
    const std::int64_t begin = now_ns();
    for (int done = 0;; ++done) {
      const double spent = static_cast<double>(now_ns() - begin) / 1e9;
      const bool more = done < kFewestRounds || (done < kRounds && spent < contest_.seconds);
      WEFT_ASSIGN(const int go, seat_.announce(more ? 1 : 0));
      if (go == 0) return {};
      WEFT_RETURN_IF_ERROR(round(0));
    }
  }

  std::vector<Score> scores() {
    std::vector<Score> scores;
    for (Turn& turn : turns_) scores.push_back(std::move(turn.score));
    return scores;
  }

 private:
  Status warm_up() {
    const std::int64_t begin = now_ns();
    for (int laps = 0;; laps += kWarmUpStep) {
      const double spent = static_cast<double>(now_ns() - begin) / 1e9;
      const bool more = laps == 0 || (laps < kWarmUpLaps && spent < contest_.seconds);
      WEFT_ASSIGN(const int go, seat_.announce(more ? 1 : 0));
      if (go == 0) return {};
      WEFT_RETURN_IF_ERROR(round(kWarmUpStep));
    }
  }

  // `laps` 0: as many as fit the contender's share of the time.
  Status round(int laps) {
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      Turn& turn = turns_[i];
      WEFT_ASSIGN(const int agreed, seat_.announce(laps != 0 ? laps : laps_for(turn)));
      const int batch = contest_.bytes <= kBatchedBytes ? kBatch : 1;
      const Trial trial{agreed, batch, turn.next_lap};
      turn.next_lap += static_cast<std::uint64_t>(agreed);
      const std::int64_t begin = now_ns();
      WEFT_RETURN_IF_ERROR(contenders_[i].elsewhere ? ask(contenders_[i], trial, turn.score)
                                                    : run_here(contenders_[i], trial, turn.score));
      turn.lap_s = static_cast<double>(now_ns() - begin) / 1e9 / agreed;
    }
    return {};
  }

  [[nodiscard]] int laps_for(const Turn& turn) const {
    const double share = contest_.seconds / kRounds / static_cast<double>(contenders_.size());
    return std::clamp(static_cast<int>(share / std::max(turn.lap_s, 1e-9)), 1, kMostLaps);
  }

  Status ask(const Contender& contender, const Trial& trial, Score& score) {
    if (!seat_.leads()) return {};
    WEFT_ASSIGN(const PeerJob::Answer answer,
                contender.peer->measure(contest_.operation, contest_.bytes, trial));
    score.round_us.push_back(answer.p50_us);
    score.laps_us.push_back(answer.p50_us);
    score.cpu_s_per_gib = answer.cpu_s_per_gib;
    return {};
  }

  Status run_here(const Contender& contender, const Trial& trial, Score& score) {
    const Counts before = contender.counts ? contender.counts() : Counts{};
    WEFT_ASSIGN(const Laps own, contender.time
                                    ? contender.time(trial)
                                    : time_laps(trial, contender.subject, seat_.meeting()));
    const Counts made = contender.counts ? contender.counts() - before : Counts{};
    std::string record(sizeof(made), '\0');
    std::memcpy(record.data(), &made, sizeof(made));
    WEFT_ASSIGN(const std::vector<std::string> records, seat_.gather(record + to_bytes(own)));
    return seat_.leads() ? enter(records, trial, score) : Status{};
  }

  Status enter(const std::vector<std::string>& records, const Trial& trial, Score& score) const {
    std::vector<Laps> ranks;
    score.network_bytes.resize(records.size());
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      const std::string_view record = records[rank];
      Counts made;
      if (record.size() < sizeof(made)) return Status(Code::mismatch, "a rank's record is torn");
      std::memcpy(&made, record.data(), sizeof(made));
      WEFT_ASSIGN(Laps laps, laps_from_bytes(record.substr(sizeof(made))));
      score.allocations += made.allocations;
      score.network_bytes[rank] += made.network_bytes;
      score.cpu_s += static_cast<double>(laps.cpu_ns) / 1e9 /
                     (contest_.one_process ? static_cast<double>(records.size()) : 1);
      if (!laps.laps.empty()) ranks.push_back(std::move(laps));
    }
    const std::vector<double> spans = spans_us(ranks, trial.batch);
    score.round_us.push_back(median(spans));
    score.laps_us.insert(score.laps_us.end(), spans.begin(), spans.end());
    score.calls += static_cast<double>(trial.laps) * trial.batch;
    const double gib = score.calls * static_cast<double>(contest_.bytes) *
                       static_cast<double>(records.size()) / (1 << 30);
    score.cpu_s_per_gib = gib > 0 ? score.cpu_s / gib : 0;
    return {};
  }

  const Contest& contest_;
  std::vector<Contender>& contenders_;
  Seat& seat_;
  std::vector<Turn> turns_;
};

}  // namespace

Result<std::vector<Score>> measure(const Contest& contest, std::vector<Contender>& contenders,
                                   Seat& seat) {
  Rounds rounds(contest, contenders, seat);
  WEFT_RETURN_IF_ERROR(rounds.run());
  return seat.leads() ? rounds.scores() : std::vector<Score>{};
}

Status check_running_free(const Subject& subject, int laps) {
  for (std::uint64_t lap = 0; lap < static_cast<std::uint64_t>(laps); ++lap) {
    if (subject.rewrite) subject.rewrite(lap);
    WEFT_RETURN_IF_ERROR(subject.run(1));
    if (subject.check) WEFT_RETURN_IF_ERROR(subject.check(lap));
  }
  return {};
}

double paired_ratio(const Score& numerator, const Score& denominator) {
  std::vector<double> ratios;
  const std::size_t rounds = std::min(numerator.round_us.size(), denominator.round_us.size());
  for (std::size_t i = 0; i < rounds; ++i) {
    if (denominator.round_us[i] > 0) {
      ratios.push_back(numerator.round_us[i] / denominator.round_us[i]);
    }
  }
  return median(std::move(ratios));
}

}  // namespace weft
