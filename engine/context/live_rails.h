// live_rails: what is left of each rank's rails, on which all ranks of a context agree, so that they plan large
// all-reduces alike after a rail is lost, and again when it is back (scheduler/plan, allreduce_uneven).
//
// Rank 0 leads. Example, of 4 ranks, where rank 2 loses one of its two rails:
//   rank 2 -> 0    left:   half of my rails is left
//   rank 0 -> all  ask:    which number does your next call get?
//   all -> rank 0  answer: 41, 43, 42; from now on this rank holds large all-reduces back
//   rank 0 -> all  begin:  from call 43 on, what is left is 1, 1, 1/2, 1
// Ranks thus use a plan from the same call on, and wait for each other only in such a round. While no rail
// changes, nothing is sent.
//
// Such a plan has edges between all machines, and the rail that is lost may be the one that leads to the
// rendezvous. So each rank gets all addresses while its rails are whole. If one could not, plans stay as they are.
//
// Belongs to the holder of the lane's token. Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/peers.h"
#include "engine/job/job.h"
#include "engine/lane/lane.h"
#include "engine/request/request.h"

namespace weft {

class LiveRails {
 public:
  static constexpr int kMostRanks = 64;  // a plan with uneven pieces has edges between all machines
  // What it needs of the context.
  struct Surroundings {
    // Whether connecting to any rank needs the rendezvous no more. Gets what is missing if it may ask.
    std::function<bool(bool may_ask)> knows_all;
    std::function<bool(Rank)> is_gone;
    std::function<void(const Status&)> fail;  // ends the context
  };

  // `rails`: those of this rank.
  LiveRails(const Config& config, std::uint32_t job, std::uint16_t context, Lane& lane,
            Peers& peers, MachineTable& machines, const std::vector<RailRecord>& rails,
            Surroundings around)
      : config_(config),
        job_(job),
        context_(context),
        lane_(lane),
        peers_(peers),
        machines_(machines),
        rails_(rails),
        around_(std::move(around)) {}

  // Whether the plan of this call depends on the rails that are left, if its algorithm is chosen.
  [[nodiscard]] bool concerns(const Request& request) const;
  // Before such a call is bound: waits while the ranks agree, and adopts what holds from this call on. An
  // error ends the context: `timed_out` if a rank does not answer within the deadline.
  [[nodiscard]] Status settle();
  // The same in two steps, for callers that cannot wait: no such call may be bound while it holds() them
  // back, and adopt() comes right before it is.
  [[nodiscard]] bool holds();
  [[nodiscard]] Status adopt();
  // A notice of another rank.
  void hear(Rank from, const Notice& notice);
  // Looks for rails that have changed, if there are such calls, and sends what has waited for room.
  void advance();
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

 private:
  using Left = std::array<std::uint8_t, kMostRanks>;  // by rank, of kWhole
  static constexpr std::uint8_t kWhole = 240;         // divisible by what jobs have of rails
  enum class Say : std::uint32_t { left, ask, answer, begin };
  // The payload of a notice.
  struct Note {
    Say say;
    std::uint32_t round;   // all but `left`
    std::uint64_t number;  // answer, begin; kNever: plans stay as they are
    // begin: of all. left: the first is that of the sender. answer: the first is 0 if it may be unable to connect
    // to all.
    Left left;
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  struct Waiting {
    Rank to;
    Note note;
  };
  struct Change {
    std::uint64_t number;
    Left left;
  };

  // 0: it has one rail or none.
  [[nodiscard]] std::uint8_t find_left() const;
  void look();
  void tell(Rank to, const Note& note);
  void tell_others(const Note& note);
  void note_left(Rank rank, std::uint8_t left);
  void ask();
  void count(Rank from, std::uint64_t number, bool can);
  [[nodiscard]] Status use(const Left& left);
  void send();
  bool post(const Waiting& waiting);  // false: there is no room
  [[nodiscard]] std::uint64_t next_number() const;
  void learn(std::int64_t now, bool may_ask);
  void check_awaited();
  [[nodiscard]] std::vector<Rank> awaited() const;
  [[nodiscard]] Status unanswered() const;

  const Config& config_;
  const std::uint32_t job_;
  const std::uint16_t context_;
  Lane& lane_;
  Peers& peers_;
  MachineTable& machines_;
  const std::vector<RailRecord>& rails_;
  const Surroundings around_;

  std::int64_t next_look_ns_ = 0;
  std::uint8_t told_ = kWhole, seen_ = kWhole;  // of this rank; the latter since seen_ns_
  std::int64_t seen_ns_ = 0;
  bool knows_all_ = false;  // Surroundings::knows_all
  std::int64_t next_learn_ns_ = 0, learn_pause_ns_ = 0;
  std::int64_t next_check_ns_ = 0, gone_ns_ = 0;  // of an awaited rank: since when it has been gone
  std::uint64_t settled_ = 0;  // above the number of the call that was let pass last; 0: none was
  bool holds_ = false;         // this rank has been asked, and has not heard `begin`
  std::uint32_t round_ = 0;
  std::deque<Change> changes_to_come_;
  std::uint64_t changes_ = 0;
  std::deque<Waiting> waiting_;  // for room on a control channel

  // Of rank 0.
  Left left_ = whole(), begun_ = whole();
  std::vector<Rank> asked_;  // who has not answered
  std::uint64_t highest_ = 0;
  bool can_all_ = true;  // all that have answered

  static constexpr Left whole() {
    Left left{};
    left.fill(kWhole);
    return left;
  }
};

}  // namespace weft
