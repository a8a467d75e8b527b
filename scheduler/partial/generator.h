// generator: makes groups for workers that ask for them, and says when each may run (Prague,
// sections 4.1 and 5). A pure state machine: events go in, assignments come out.
//
//   worker 4                       generator                           workers 0, 5
//     │── request ───────────────────►│ group 7 = {0, 4, 5}                  │
//     │   computes its iteration      │ 5 is still in group 6: 7 waits       │
//     │                               │◄──────────────────── 5: done with 6 ─┤
//     │◄── group 7 = {0, 4, 5} ───────┤── group 7 = {0, 4, 5} ──────────────►│
//     │◄─────────────── group_average of 0, 4 and 5 ────────────────────────►│
//     │── done with 7, request ──────►│◄─────────────────── 0, 5: the same ──┤
//
// A worker asks at the beginning of an iteration, so the answer comes while it computes. At the end of
// the iteration it takes part in the groups that are assigned to it, in their order, up to the one
// that answers its request. It reports each as soon as it is done with it. `done` and the next request
// can travel as one message; so a worker sends one small message in each iteration, and gets one for
// each group.
//
// Order. Groups are numbered from 1 as they are made. Each worker has a queue: its groups that it is
// not done with, in the order of their numbers. A group runs when it is the first in the queue of all
// its members. So no worker is in two running groups; groups that overlap run in their order; and as
// the group with the lowest number never waits, no circle of waits can form. The paper's lock vector
// is the fronts of the queues, its pending queue is all that is behind them.
//
// Random law. Every request makes a group of its worker and others drawn from all living workers. A
// worker also takes part in groups that others have asked for.
//
// Smart law. A request is answered by the worker's first group that no request of its has taken yet
// (the paper's group buffer). If there is none, all workers without such a group are divided at once.
// With several machines each division has two phases: random groups across and inside machines
// (division.h), and then each machine as one group. A group of one is a legal answer: the worker
// synchronizes with nobody in that iteration.
//
// Slow workers (section 5.3). A request says how long the worker has computed in its last iteration. A
// worker is slow if others compute `threshold` iterations while it computes one. It makes no division, and
// is in the first phase of the one after which it will have computed; so nobody waits for it. Time is
// counted in rounds, in which each worker asks once: the generator has no clock. The fastest worker is
// never slow, and its divisions serve those that are.
//
// Late workers. If requests say when they come, a division takes those alone that will have computed when
// the asker will have: who has waited for a slow worker is behind, and whoever is divided with it would be,
// too. An asker with whom less than half of the fast workers would be in time makes no division, and is in
// the next one of the others. So it waits for them once, and not they for it.
//
// Who leaves still takes part in the group that runs for it, and is in no later one.
//
// If a worker dies, also the one with which the generator lives, a successor is made of what the living
// workers report. Groups that run go on with the members that are alive and not done with them. Groups
// that had not begun to run are forgotten, and made anew for the workers that had asked. A message of the
// old generator that arrives late must be recognized by the caller.
//
// Bounds. All memory is taken when the generator is made: 3 groups for each worker. A request costs
// O(group size), where the workers are divided O(workers * (group size + log workers)); other events cost
// O(members) of a group. An event that is an error changes nothing.
//
// Threads: none of its own; belongs to one thread. Internal to the module; others include partial.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/partial/division.h"
#include "scheduler/partial/law.h"
#include "scheduler/partial/pace.h"
#include "verbs/base/base.h"

namespace weft {

struct GroupOptions {
  int size = 1;                // workers: ranks 0…size-1
  GroupLaw law{};              // random or smart
  std::vector<int> machine{};  // by rank, as in Layout; empty: all are on one machine
  std::uint64_t seed = 0;
};

// To be sent to rank `to`: the group runs, and `to` is one of its members.
struct GroupAssignment {
  Rank to = kNoRank;
  std::uint64_t group = 0;
  bool answers = false;           // this group is the answer to the worker's request
  std::span<const Rank> members;  // ascending
};

// What a worker tells the successor of a generator.
struct GroupReport {
  Rank worker = kNoRank;
  std::uint64_t requests = 0;     // how often it has asked
  bool has_asked = false;         // and is not done with the group that answers it
  std::uint64_t computed_us = 0;  // as in request()
  // Its newest assignment, and whether it is done with it. 0: it has had none.
  std::uint64_t group = 0;
  bool answers = false;
  bool is_done = false;
  std::vector<Rank> members{};
};

class GroupGenerator {
 public:
  // invalid_argument if the law has no meaning or needs no generator, or `machine` does not name a
  // machine (0…size-1) for each rank.
  static Result<GroupGenerator> open(GroupOptions options);
  // The successor of a generator with the same options but another seed. Ranks that do not report
  // have died or left. Its first assignments() are those of groups that run, again, with the members that are
  // left, and of requests that had no answer. Errors name the rank whose report is wrong, or contradicts
  // another one's.
  static Result<GroupGenerator> succeed(GroupOptions options, std::span<const GroupReport> reports);

  // The worker begins an iteration, and has computed for so long in the one before; 0: it has been in none,
  // or cannot say. `at_us`: when it began, or when its request came, on one clock for all workers; 0: not
  // known, and then all are taken to be in time. invalid_argument if it has left, or has asked before and is
  // not done with the answer.
  Status request(Rank worker, std::uint64_t computed_us = 0, std::uint64_t at_us = 0);
  // The worker is done with the group that runs for it.
  Status done(Rank worker, std::uint64_t group);
  // The worker leaves as soon as it is done with the group that runs for it, if any does.
  Status leave(Rank worker);

  // What is to be sent because of the last event. Valid until the next one.
  [[nodiscard]] std::span<const GroupAssignment> assignments() const { return assignments_; }

  // Workers that have not left.
  [[nodiscard]] std::size_t living() const { return living_.size(); }
  // Whether it has left, and no group runs for it any more.
  [[nodiscard]] bool is_gone(Rank worker) const {
    return of(worker).has_left && of(worker).first == kNone;
  }
  // How often the worker has asked.
  [[nodiscard]] std::uint64_t requests(Rank worker) const { return of(worker).requests; }
  // Groups that run or wait, and the most that there can be.
  [[nodiscard]] std::size_t groups() const { return groups_.size() - free_.size(); }
  [[nodiscard]] std::size_t most_groups() const { return groups_.size(); }

 private:
  static constexpr int kNone = -1;
  static constexpr Rank kNobody = -2;  // a group that answers no living worker's request

  struct Member {
    int next = kNone;  // the place of the group that follows in this member's queue
    bool is_done = false;
  };
  struct Group {
    std::uint64_t number = 0;
    Rank asker = kNoRank;            // whose request it answers; kNoRank: that of each member
    std::vector<Rank> members;       // ascending
    std::vector<Member> of_members;  // in the same order
    std::size_t blocked = 0;         // members with an earlier group in their queue
    std::size_t open = 0;            // members that are neither done nor gone
    bool is_running = false;
  };
  struct Worker {
    int first = kNone, last = kNone;  // its queue: places in groups_
    std::uint64_t requests = 0;
    int untaken = 0;  // smart: groups in its queue that no request has taken
    bool has_asked = false;
    bool has_left = false;
    bool is_deferred = false;  // it has asked, and waits for another one's division
    double due = 0;            // in rounds
    double asked_us = 0;       // when; 0: not known
    std::size_t place = 0;     // in living_
  };

  explicit GroupGenerator(GroupOptions options);

  [[nodiscard]] Worker& of(Rank rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Worker& of(Rank rank) const {
    return workers_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Group& at(int place) { return groups_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] static Member& member(Group& group, Rank rank);
  [[nodiscard]] bool is_rank(Rank rank) const { return rank >= 0 && rank < options_.size; }
  [[nodiscard]] Status check_living(Rank worker, std::string_view event) const;

  void serve(Rank worker);
  void defer(Rank worker);
  void serve_deferred();
  [[nodiscard]] bool is_slow(Rank worker) const;
  [[nodiscard]] bool is_idle(Rank worker, Rank asker) const;
  [[nodiscard]] bool is_divider(Rank asker) const;
  [[nodiscard]] bool is_in_time(Rank worker, Rank asker) const;
  [[nodiscard]] double begins_us(Rank worker) const;
  [[nodiscard]] bool has_time(Rank worker) const;
  [[nodiscard]] bool are_all_deferred(std::size_t others) const;
  void draw_for(Rank worker);
  void divide_for(Rank worker);
  int make(std::span<const Rank> members, Rank asker);
  void enqueue(int place);
  void start(int place);
  void assign(const Group& group, Rank to);
  void close(int place);
  void bury(Rank worker);
  void leave_waiting(int place, Rank worker, bool is_first);
  void exchange(std::size_t a, std::size_t b);
  [[nodiscard]] Status restore(const GroupReport& report,
                               std::span<const GroupReport* const> by_rank);
  [[nodiscard]] bool is_answered(Rank worker) const;

  GroupOptions options_;
  bool has_phases_ = false;  // smart, on several machines
  Draws draws_;
  std::vector<Worker> workers_;  // by rank
  std::vector<Rank> living_;
  std::vector<Group> groups_;
  std::vector<int> free_;  // places in groups_
  std::uint64_t last_number_ = 0;
  Pace pace_;
  double rounds_ = 0;  // so far: requests by the number of workers that could ask
  double now_us_ = 0;  // of the last request; 0: not known
  std::vector<Rank> deferred_;
  std::vector<GroupAssignment> assignments_;
  // Of one division.
  Division division_;
  std::vector<Rank> idle_, heads_;
};

}  // namespace weft
