// failures: notices what ends a context, and ends it. Each lane has one. check_liveness() looks for deaths, closed
// connections, passed deadlines, and failures that peers report. It is called about once per
// millisecond of waiting, never while data flows. The first failure ends all operations, is sent to
// the peers, and is returned by all later calls. Internal to the module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/control.h"
#include "engine/context/first_failure.h"
#include "engine/job/job.h"
#include "engine/lane/lane.h"
#include "engine/membership/membership.h"

namespace weft {

// How long one waits for the reason why no path works to a needed rank. It may have died or left, which
// other ranks or the Store tell later than its network does. Where a death is no error, a path that is
// taken for lost too early ends the job: a cable that is out keeps the news for seconds, and TCP sends
// it again as long after the cable is back.
[[nodiscard]] inline std::int64_t lost_path_patience_ns(const Config& config) {
  const std::int64_t most = config.deadline_ms / 2;
  const bool death_is_no_error = config.on_death == OnDeath::skip;
  return (death_is_no_error ? most : std::min<std::int64_t>(3000, most)) * 1'000'000;
}

// Belongs to the holder of the lane's token.
class Failures final : public LaneObserver {
 public:
  // `rails`: where missing machine records are asked for again; null: another lane does that.
  Failures(const Config& config, const RankMap& rank_map, Lane& lane, Control& control,
           RailSelection* rails, const Membership& membership, FirstFailure& first)
      : config_(config),
        rank_map_(rank_map),
        lane_(lane),
        control_(control),
        rails_(rails),
        membership_(membership),
        first_(first) {}

  // Is called with the reason before what is in flight ends.
  void before_end(std::function<void(const Status&)> call) { before_end_ = std::move(call); }
  // Fails the context, unless it has failed before. `touched_output`: the operation that failed may
  // have written to its output.
  void fail(const Status& status, bool touched_output = false);
  // Fails the lane if another lane of the context has failed.
  void follow_others() {
    if (first_.is_noted() && lane_.failure().ok()) follow();
  }
  // Looks at everything that could end the context.
  void check_liveness() override;
  Status check_unmatched(const LaneSlot& slot) override { return control_.find_unmatched(slot); }
  Status check_sources() override { return control_.listen(); }
  void hear_peers() override { (void)listen(); }
  void operation_failed(const Status& status, bool touched_output) override {
    fail(status, touched_output);
  }

 private:
  void follow();
  bool check_gone();
  Status lost_path(LaneSlot& slot);
  bool check_left(LaneSlot& slot);
  bool check_deadline(LaneSlot& slot, std::int64_t now);
  [[nodiscard]] Rank missing_and_gone(LaneSlot& slot);
  [[nodiscard]] bool is_gone(const PeerConnection& connection) const;
  [[nodiscard]] Status waited_too_long(LaneSlot& slot);
  bool listen();

  const Config& config_;
  const RankMap& rank_map_;
  Lane& lane_;
  Control& control_;
  RailSelection* const rails_;
  const Membership& membership_;
  FirstFailure& first_;
  std::function<void(const Status&)> before_end_ = [](const Status&) {};
  Epoch membership_epoch_ = 0;               // the epoch that was checked last
  std::int64_t lost_ns_ = 0;                 // since when a needed path is lost; 0: none is
  std::vector<Execution::Missing> missing_;  // scratch
};

}  // namespace weft
