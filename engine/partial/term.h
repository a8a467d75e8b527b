// term: a worker and, on the lowest rank, the generator of its groups, from the beginning of the job or from
// a death on until the next one.
//
//   worker ── send(turn) ──► mail ──► GroupGenerator at rank 0 of the term's context
//     next() ◄── assignments ── mail ◄──┘        (progress hook: a caller that waits, or the lane's thread)
//
// A term has a context of its own, of the ranks that are alive. So a message of an earlier term, which may
// have another generator, never arrives in a later one. If a rank of a term dies or leaves the job, the
// term has failed on all ranks, and they begin another one. Its generator first collects a report of
// each worker.
//
// Ranks in messages and of assignments are those of the first term. `ranks` has them by their numbers in
// this term's context.
//
// Threads: send() and next() are for one caller; the rest belongs to the holder of the lane's token.
// Internal to the module.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/partial/host.h"
#include "engine/partial/messages.h"
#include "scheduler/partial/partial.h"

namespace weft {

struct TermOptions {
  GroupOptions groups;      // of the first term
  std::vector<Rank> ranks;  // ascending
  std::string title;        // begins what errors say
};

class GroupTerm final : public ProgressHook {
 public:
  GroupTerm(std::unique_ptr<GroupHost> host, TermOptions options);
  ~GroupTerm() override;
  // `is_first`: the generator begins without reports.
  Status begin(bool is_first);

  [[nodiscard]] GroupHost& host() { return *host_; }
  [[nodiscard]] const std::vector<Rank>& ranks() const { return options_.ranks; }
  // The number of a rank in this term's context.
  [[nodiscard]] Rank number_of(Rank rank) const;
  // Whether this rank has the generator.
  [[nodiscard]] bool generates() const { return host_->rank() == 0; }

  // To the generator. What goes wrong is an error of the next next().
  void send(const GroupMessage& message);
  // The next assignment, or `over`. timed_out if none comes within the deadline; a worker that `leaves` waits
  // as long as the generator hears of others.
  Result<GroupMessage> next(bool leaves);
  // ok, or why the term has ended.
  [[nodiscard]] Status failure();

  // Of the lane.
  bool advance() override;
  [[nodiscard]] bool is_idle() const override { return true; }
  [[nodiscard]] std::int64_t next_ns() const override;
  void abandon(const Status& why) override;

 private:
  class Arrival;

  void read(Rank from, std::span<const std::byte> bytes);
  void take(Rank worker, const GroupMessage& message);
  void collect(Rank worker, const GroupMessage& report);
  void succeed();
  void act(Rank worker, const GroupMessage& turn);
  bool accept(Rank worker, const Status& status);
  void deliver(Rank to, GroupMessage message);
  void tell_over();
  void look();
  void tell_going_on();
  void check_departures();
  [[nodiscard]] Rank find_departure();
  void check_deadline();
  [[nodiscard]] std::string waited_for() const;

  const std::unique_ptr<GroupHost> host_;
  const std::shared_ptr<Lane> lane_;
  const TermOptions options_;
  const Mail::Reader reader_;
  Status failure_;
  std::int64_t now_ns_ = 0;
  std::int64_t next_look_ns_ = 0;
  int departures_ = 0;  // looks that found a rank gone, one after the other

  // Of the worker.
  std::deque<GroupMessage> inbox_;
  bool is_waiting_ = false;
  std::int64_t waits_since_ns_ = 0;
  bool leaves_ = false;

  // Of the generator.
  std::optional<GroupGenerator> generator_;
  std::vector<std::optional<GroupMessage>>
      reports_;  // by number; of a later term, until all are there
  struct Turn {
    Rank worker = kNoRank;
    GroupMessage message;
  };
  std::vector<Turn> early_;     // turns that came before the last report
  std::vector<bool> has_left_;  // by number: it has said so
  std::int64_t heard_ns_ = 0, told_ns_ = 0;
  bool is_over_ = false;
};

}  // namespace weft
