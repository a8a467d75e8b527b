// A path: one rail between two bonds, as one end of it sees it. Here is what the path is now (its
// state), how often it was connected, how fast it carries, and whether it is slow or silent; the parts
// of a BondEndpoint say what changes that. Internal to the module.
//
// Each end has a state of its own and learns of the other's by notes. `lost` and `early_…` differ
// from `counted` and `probing` in one point: whether the peer has said how many notices it took
// from the path before it was given up. Until it has, nobody knows which notices must be posted
// again.
//
//                       gives it up                the peer's count (fenced)
//   live ─────────────────────────────────► lost ───────────────────────────► counted
//    ▲                                       │ ▲                                │ ▲
//    │ the count                   connected │ │ given up             connected │ │ given up
//    │                                 anew  ▼ │                          anew  ▼ │
//    ├────── early_proven ◄──────── early_probing ──────────────────────► probing │
//    │                      echo                      the count             │
//    └──────────────────────────────────────────────────────────────────────┘ echo
//
// Threads and lifetime: a value in its BondEndpoint.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "verbs/transport/transport.h"

namespace weft::bond {

enum class PathState : std::uint8_t {
  live,           // we post pieces and notices on it
  lost,           // given up; what the peer took from it is not known
  counted,        // given up; the peer has said what it took, and the rest was or is posted again
  probing,        // connected anew after that; a probe went over it and waits for its echo
  early_probing,  // connected anew although the peer's count is not known
  early_proven,   // as early_probing, and the echo has come: only the count is missing
};
inline constexpr std::size_t kPathStates = 6;

// The transitions that exist. Row: from; column: to; both in the order of PathState. Any other
// transition is a bug of ours.
inline constexpr std::array<std::array<bool, kPathStates>, kPathStates> kPathTransitions = {{
    // live    lost   counted probing early_probing early_proven
    {{false, true, false, false, false, false}},  // live: given up
    {{false, false, true, false, true, false}},   // lost: the count; connected anew
    {{false, false, false, true, false, false}},  // counted: connected anew
    {{true, false, true, false, false, false}},   // probing: the echo; given up
    {{false, true, false, true, false, true}},    // early_probing: given up; the count; the echo
    {{true, true, false, false, false, false}},   // early_proven: the count; given up
}};

// A port of ours and one of the peer's that may reach it.
struct Ports {
  Interface* interface = nullptr;
  std::string address;  // of the peer's end
  std::string rail;     // the rail's name
  int member = 0;       // our interface, by its number in our bond
  int peer_member = 0;  // the peer's, by its number in the peer's bond
  std::string peer_name;
  int node = -1;  // BondMember::node
};

// Why a path is given up.
enum class Loss : std::uint8_t {
  failed,     // its connection has failed
  unplugged,  // nothing failed, but an end has no link
  judged,     // nothing failed, but an end found it slow or silent
};

// How often a path was connected again: a number that wraps around, and that both ends agree on.
struct Generations {
  std::uint16_t now = 0;
  std::uint16_t lived = 0;   // the last in which the path was live; a fence is about this one
  std::uint16_t before = 0;  // the last before `now` in which notices were taken (Channel::before)
  bool took = false;         // notices were taken in `now`
};

// When a path that was given up is tried again, and how much depends on it.
struct Retry {
  std::int64_t try_ns = 0;    // when it is tried next
  std::int64_t wait_ns = 0;   // how long it waits before the first try; doubles if it is bad again
  std::int64_t tried_ns = 0;  // when it was tried last
  std::int64_t back_ns = 0;   // when it last became live again; 0: never
  bool is_reserve = false;    // given up although nothing failed
  bool wanted = false;        // no other path carries: it is tried without the peer's count, too
};

// How fast a path carries, in bytes per nanosecond. A sample covers only the time in which pieces
// were under way: a fast path often has to wait for a slow one, and that says nothing of the fast
// one.
struct Flow {
  double rate = 1.0;  // the estimate in use; equal for all paths until it is measured
  bool measured = false;
  double latest = 0;  // in the last sample
  double best = 0;    // what it has carried for long: learned in a second, forgotten in a minute
  std::uint64_t seen = 0;     // bytes in all samples
  std::uint64_t backlog = 0;  // bytes posted and not locally completed
  // The present sample.
  std::uint32_t pieces = 0;  // under way now
  std::uint64_t carried = 0;
  std::int64_t busy_ns = 0;     // time with pieces under way, up to counted_ns
  double held = 0;              // the backlog summed over that time, in byte * ns
  std::int64_t counted_ns = 0;  // up to when time was counted
  bool fell_back = false;       // the last sample with enough to carry was far below `best`
  bool connects = true;         // not connected yet; time before that is not counted

  // How long the path has carried pieces in this sample.
  [[nodiscard]] std::int64_t busy_until(std::int64_t now) const {
    return busy_ns + (pieces == 0 || connects ? 0 : now - counted_ns);
  }
  // The rate to expect now: the estimate, or less if the path has fallen far behind it in this
  // sample.
  [[nodiscard]] double rate_at(std::int64_t now) const;
  // A new beginning: only `best` and `seen` are kept.
  void forget(double new_rate, std::int64_t now);
};

// Evidence that a path has grown slow; all 0 while there is none.
struct Slowness {
  std::int64_t ns = 0;         // time with pieces under way in slow samples
  std::int64_t since_ns = 0;   // when the first of them began
  std::int64_t sample_ns = 0;  // when the last of them began
  double rate = 0;             // the rate in the last of them
  std::int64_t asked_ns = 0;   // when the peer was asked whether it is there
};

// Evidence that a path is silent: nothing moves on it although something should.
struct Silence {
  std::uint64_t moved =
      0;  // the count of releases, locally completed pieces and ended work, at its last change
  std::int64_t moved_ns = 0;  // when that was; 0: not looked at yet
  int questions = 0;          // how many were asked since then
  std::int64_t probed_ns = 0;
  std::int64_t echoed_ns = 0;              // when the path itself answered
  std::int64_t answered_elsewhere_ns = 0;  // when another path answered for it
  bool is_witnessed = false;               // that path's answer is evidence (is_witness())

  void forget_questions() {
    questions = 0;
    probed_ns = echoed_ns = 0;
  }
};

struct Path : Ports {
  Path(Ports ports, std::size_t number) : Ports(std::move(ports)), number(number) {}

  std::size_t number;  // both ends number their paths alike
  Endpoint* endpoint = nullptr;
  bool joined = false;  // was connected once: its ports reach each other
  bool is_used = true;  // use_members()
  // One-sided work was under way when the path was given up, and the peer has not said yet that its
  // end is closed (WorkState::may_linger).
  bool lingers = false;
  std::uint32_t losses = 0;   // how often it was given up
  std::uint32_t regions = 0;  // the newest region that the endpoint knows; it knows all before
  Generations generation;
  Retry retry;
  Flow flow;
  Slowness slow;
  Silence silence;

  [[nodiscard]] PathState state() const { return state_; }
  [[nodiscard]] bool live() const { return state_ == PathState::live; }
  // Connected anew and not live yet: it carries only notes about paths.
  [[nodiscard]] bool returning() const { return state_ >= PathState::probing; }
  [[nodiscard]] bool carries_notes() const { return live() || returning(); }
  // Given up, and the peer has said what it took.
  [[nodiscard]] bool resolved() const {
    return state_ == PathState::counted || state_ == PathState::probing;
  }
  // Nobody knows yet which notices the peer took before the path was given up, and the path's
  // present connection is not the one on which they were posted. So the counts of this connection
  // say nothing about them.
  [[nodiscard]] bool in_doubt() const {
    return !live() && !resolved() && generation.now != generation.lived;
  }
  // The only way to another state; one that kPathTransitions lacks is a broken invariant.
  void enter(PathState next);
  // The path is given up. Returns true if it was live.
  bool leave();

 private:
  PathState state_ = PathState::live;
};

// Counts the time up to now in the path's flow; called before pieces or backlog change.
void count_time(Path& path, std::int64_t now);

}  // namespace weft::bond
