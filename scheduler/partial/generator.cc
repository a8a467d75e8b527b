// generator: see the header. The successor of a generator is in succession.cc.
#include "scheduler/partial/generator.h"

#include <fmt/format.h>
#include <weft/graph/digraph.h>
#include <weft/macros.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

// A worker that is still slower is waited for. Nobody is deferred for longer than for so many rounds, as
// it might be fast again.
constexpr double kMostRounds = 64;

// A worker is in time for a division if it will have computed within this part of an iteration of the
// asker.
constexpr double kInTime = 0.35;

std::size_t largest_machine(const std::vector<int>& machine) {
  std::vector<std::size_t> sizes(machine.size());
  std::size_t largest = 0;
  for (const int each : machine) {
    largest = std::max(largest, ++sizes[static_cast<std::size_t>(each)]);
  }
  return largest;
}

Status check(const GroupOptions& options) {
  WEFT_RETURN_IF_ERROR(check(options.law));
  WEFT_RETURN_IF_ERROR(check_graph_size(options.size, 0));
  if (options.law.kind == GroupLaw::Kind::scheduled) {
    return Status(Code::invalid_argument,
                  "static groups need no generator: each worker computes them alone");
  }
  const auto size = static_cast<std::size_t>(options.size);
  if (!options.machine.empty() && options.machine.size() != size) {
    return Status(Code::invalid_argument,
                  fmt::format("groups of {} workers: machines are given for {} ranks", size,
                              options.machine.size()));
  }
  for (std::size_t rank = 0; rank < options.machine.size(); ++rank) {
    const int machine = options.machine[rank];
    if (machine >= 0 && machine < options.size) continue;
    return Status(Code::invalid_argument,
                  fmt::format("groups of {} workers: machine {} of rank {} is outside 0…{}", size,
                              machine, rank, size - 1),
                  static_cast<Rank>(rank));
  }
  return {};
}

}  // namespace

Result<GroupGenerator> GroupGenerator::open(GroupOptions options) {
  WEFT_RETURN_IF_ERROR(check(options));
  return GroupGenerator(std::move(options));
}

GroupGenerator::GroupGenerator(GroupOptions options)
    : options_(std::move(options)), draws_(options_.seed), pace_(options_.size) {
  const auto size = static_cast<std::size_t>(options_.size);
  const std::vector<int>& machine = options_.machine;
  has_phases_ = options_.law.kind == GroupLaw::Kind::smart &&
                std::ranges::any_of(machine, [&](int each) { return each != machine.front(); });
  if (!has_phases_) options_.machine.clear();
  // One more than the law says, where a single worker is left over.
  const std::size_t most_members =
      std::min(size, std::max(static_cast<std::size_t>(options_.law.group_size) + 1,
                              largest_machine(options_.machine)));
  workers_.resize(size);
  living_.resize(size);
  std::iota(living_.begin(), living_.end(), 0);
  for (std::size_t rank = 0; rank < size; ++rank) workers_[rank].place = rank;
  // At most 3 groups wait or run for a worker of the smart law: one that its request has taken, and
  // the two of a division after that. Each group has at least one member that is not done. Of the
  // random law each worker has asked for one, and is in one that runs.
  groups_.resize(3 * size);
  for (Group& group : groups_) {
    group.members.reserve(most_members);
    group.of_members.reserve(most_members);
  }
  for (std::size_t place = groups_.size(); place > 0; --place)
    free_.push_back(static_cast<int>(place) - 1);
  assignments_.reserve(size);
  division_.reserve(2 * size, 2 * size);
  deferred_.reserve(size);
  idle_.reserve(size);
  heads_.resize(has_phases_ ? size : 0);
}

GroupGenerator::Member& GroupGenerator::member(Group& group, Rank rank) {
  const auto found = std::ranges::lower_bound(group.members, rank);
  invariant(found != group.members.end() && *found == rank, "a queue holds a group of its worker");
  return group.of_members[static_cast<std::size_t>(found - group.members.begin())];
}

Status GroupGenerator::check_living(Rank worker, std::string_view event) const {
  if (!is_rank(worker)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: rank {} is outside 0…{}", event, worker, options_.size - 1),
                  worker);
  }
  if (!of(worker).has_left) return {};
  return Status(Code::invalid_argument, fmt::format("{}: rank {} has left", event, worker), worker);
}

Status GroupGenerator::request(Rank worker, std::uint64_t computed_us, std::uint64_t at_us) {
  WEFT_RETURN_IF_ERROR(check_living(worker, "request for a group"));
  if (of(worker).has_asked) {
    return Status(Code::invalid_argument,
                  fmt::format("request for a group: rank {} has asked before, and is not done with "
                              "the group that answers it",
                              worker),
                  worker);
  }
  assignments_.clear();
  of(worker).has_asked = true;
  ++of(worker).requests;
  rounds_ += 1 / static_cast<double>(living_.size());
  pace_.add(worker, computed_us);
  now_us_ = of(worker).asked_us = static_cast<double>(at_us);
  serve(worker);
  serve_deferred();
  return {};
}

void GroupGenerator::serve(Rank worker) {
  if (options_.law.kind == GroupLaw::Kind::random) return draw_for(worker);
  if (of(worker).untaken == 0) {
    if (!is_divider(worker)) return defer(worker);
    divide_for(worker);
  }
  --of(worker).untaken;
}

bool GroupGenerator::is_slow(Rank rank) const {
  return pace_.rounds(rank) >= options_.law.threshold;
}

// A group that is made at the beginning of the others' iterations runs one round later.
void GroupGenerator::defer(Rank worker) {
  of(worker).due = rounds_ + std::min(pace_.rounds(worker), kMostRounds) - 1;
  of(worker).is_deferred = true;
  deferred_.push_back(worker);
}

// If nobody else will ask: the others have left.
void GroupGenerator::serve_deferred() {
  std::erase_if(deferred_, [&](Rank rank) { return !of(rank).is_deferred; });
  if (deferred_.empty() || !are_all_deferred(living_.size())) return;
  const auto ready_us = [&](Rank rank) { return of(rank).asked_us + pace_.mean_us(rank); };
  const Rank first = std::ranges::min(deferred_, {}, ready_us);
  of(first).is_deferred = false;
  divide_for(first);
  --of(first).untaken;
}

bool GroupGenerator::are_all_deferred(std::size_t others) const {
  const auto is_deferred = [&](Rank rank) { return of(rank).is_deferred; };
  return static_cast<std::size_t>(std::ranges::count_if(deferred_, is_deferred)) == others;
}

// Whether a division is made for its request. Otherwise another one's division has to come, which needs
// somebody who is not deferred.
bool GroupGenerator::is_divider(Rank asker) const {
  if (are_all_deferred(living_.size() - 1)) return true;
  if (is_slow(asker)) return false;
  if (!has_time(asker)) return true;
  std::size_t fast = 0, in_time = 0;
  for (const Rank rank : living_) {
    if (is_slow(rank)) continue;
    ++fast;
    in_time += rank == asker || is_idle(rank, asker) ? 1 : 0;
  }
  return 2 * in_time >= fast;
}

bool GroupGenerator::is_idle(Rank rank, Rank asker) const {
  const Worker& worker = of(rank);
  if (worker.has_left || worker.untaken > 0) return false;
  if (!is_slow(rank)) return is_in_time(rank, asker);
  if (!worker.is_deferred) return false;
  return has_time(rank) ? is_in_time(rank, asker) : worker.due <= rounds_;
}

bool GroupGenerator::has_time(Rank rank) const {
  return now_us_ > 0 && of(rank).asked_us > 0 && pace_.mean_us(rank) > 0;
}

// Whether a worker will have computed the iteration of its next group when the asker will have. One that waits
// for a division may be earlier.
bool GroupGenerator::is_in_time(Rank rank, Rank asker) const {
  if (!has_time(asker) || !has_time(rank)) return true;
  const double slack_us = kInTime * pace_.mean_us(asker);
  const double later_us = begins_us(rank) + pace_.mean_us(rank) - now_us_ - pace_.mean_us(asker);
  return later_us <= slack_us && (of(rank).is_deferred || later_us >= -slack_us);
}

// When the iteration of its next group begins, at the earliest: of a worker that waits for a division it has
// begun; of others it begins when all members of their last group have computed.
double GroupGenerator::begins_us(Rank rank) const {
  const Worker& worker = of(rank);
  if (worker.is_deferred) return worker.asked_us;
  double begins_us = now_us_;
  if (worker.last == kNone) return begins_us;
  const Group& group = groups_[static_cast<std::size_t>(worker.last)];
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const Rank member = group.members[i];
    if (group.of_members[i].is_done || !has_time(member)) continue;
    const bool computes_for_it = of(member).has_asked && of(member).untaken == 0;
    const double since_us = computes_for_it ? of(member).asked_us : now_us_;
    begins_us = std::max(begins_us, since_us + pace_.mean_us(member));
  }
  return begins_us;
}

// A random subset: the first steps of a shuffle of the living workers, which begins with the asker.
void GroupGenerator::draw_for(Rank worker) {
  const std::size_t size =
      std::min(living_.size(), static_cast<std::size_t>(options_.law.group_size));
  exchange(0, of(worker).place);
  for (std::size_t place = 1; place < size; ++place)
    exchange(place, place + draws_.below(living_.size() - place));
  idle_.assign(living_.begin(), living_.begin() + static_cast<std::ptrdiff_t>(size));
  enqueue(make(idle_, worker));
}

void GroupGenerator::exchange(std::size_t a, std::size_t b) {
  std::swap(living_[a], living_[b]);
  of(living_[a]).place = a;
  of(living_[b]).place = b;
}

void GroupGenerator::divide_for(Rank asker) {
  idle_.clear();
  for (Rank rank = 0; rank < options_.size; ++rank)
    if (rank == asker || is_idle(rank, asker)) idle_.push_back(rank);
  division_.clear();
  divide({idle_, options_.machine, heads_, static_cast<std::size_t>(options_.law.group_size)},
         draws_, division_);
  if (has_phases_) {
    const auto is_fast = [&](Rank rank) { return !is_slow(rank); };
    visit_machines(idle_, options_.machine, [&](std::size_t first, std::size_t end) {
      const std::span<Rank> all = std::span(idle_).subspan(first, end - first);
      const std::size_t slow = std::ranges::partition(all, is_fast).size();
      if (all.size() - slow > 1) division_.add(all.first(all.size() - slow));
    });
  }
  for (std::size_t group = 0; group < division_.size(); ++group) {
    for (const Rank rank : division_[group]) ++of(rank).untaken;
    enqueue(make(division_[group], kNoRank));
  }
  for (const Rank rank : idle_) {
    if (rank != asker && std::exchange(of(rank).is_deferred, false)) --of(rank).untaken;
  }
}

int GroupGenerator::make(std::span<const Rank> members, Rank asker) {
  invariant(!free_.empty(), "3 groups for each worker are enough");
  const int place = free_.back();
  free_.pop_back();
  Group& group = at(place);
  group.number = ++last_number_;
  group.asker = asker;
  group.members.assign(members.begin(), members.end());
  std::ranges::sort(group.members);
  group.of_members.assign(members.size(), {});
  group.blocked = 0;
  group.open = members.size();
  group.is_running = false;
  return place;
}

void GroupGenerator::enqueue(int place) {
  Group& group = at(place);
  for (const Rank rank : group.members) {
    Worker& worker = of(rank);
    if (worker.first == kNone) {
      worker.first = place;
    } else {
      member(at(worker.last), rank).next = place;
      ++group.blocked;
    }
    worker.last = place;
  }
  if (group.blocked == 0) start(place);
}

void GroupGenerator::start(int place) {
  Group& group = at(place);
  group.is_running = true;
  for (const Rank rank : group.members) assign(group, rank);
}

void GroupGenerator::assign(const Group& group, Rank to) {
  assignments_.push_back(
      {to, group.number, group.asker == kNoRank || group.asker == to, group.members});
}

Status GroupGenerator::done(Rank rank, std::uint64_t number) {
  if (!is_rank(rank) || is_gone(rank)) return check_living(rank, "done with a group");
  Worker& worker = of(rank);
  const int place = worker.first;
  if (place == kNone || !at(place).is_running || at(place).number != number) {
    return Status(
        Code::invalid_argument,
        fmt::format("rank {} is done with group {}, which does not run for it", rank, number),
        rank);
  }
  Group& group = at(place);
  const bool is_of_all = group.asker == kNoRank;
  if (is_of_all && !worker.has_asked && !worker.has_left) {
    return Status(
        Code::invalid_argument,
        fmt::format("rank {} is done with group {}, for which it has not asked", rank, number),
        rank);
  }
  assignments_.clear();
  if (is_of_all || group.asker == rank) worker.has_asked = false;
  Member& own = member(group, rank);
  own.is_done = true;
  worker.first = own.next;
  if (worker.first == kNone) worker.last = kNone;
  if (--group.open == 0) close(place);
  if (worker.first != kNone && --at(worker.first).blocked == 0) start(worker.first);
  return {};
}

void GroupGenerator::close(int place) {
  at(place).number = 0;
  free_.push_back(place);
}

Status GroupGenerator::leave(Rank rank) {
  WEFT_RETURN_IF_ERROR(check_living(rank, "leave"));
  assignments_.clear();
  Worker& worker = of(rank);
  int place = worker.first;
  if (place != kNone && at(place).is_running) {
    Member& own = member(at(place), rank);
    place = std::exchange(own.next, kNone);
    worker.last = worker.first;
  } else {
    worker.first = worker.last = kNone;
  }
  for (bool is_first = worker.first == kNone; place != kNone; is_first = false) {
    const int next = member(at(place), rank).next;
    leave_waiting(place, rank, is_first);
    place = next;
  }
  bury(rank);
  serve_deferred();
  return {};
}

// Takes a worker out of a group that waits. `is_first`: in the worker's queue.
void GroupGenerator::leave_waiting(int place, Rank worker, bool is_first) {
  Group& group = at(place);
  const auto found = std::ranges::lower_bound(group.members, worker);
  group.of_members.erase(group.of_members.begin() + (found - group.members.begin()));
  group.members.erase(found);
  if (--group.open == 0) return close(place);
  if (!is_first && --group.blocked == 0) start(place);
}

// It is drawn for no group any more.
void GroupGenerator::bury(Rank rank) {
  Worker& worker = of(rank);
  exchange(worker.place, living_.size() - 1);
  living_.pop_back();
  worker.has_left = true;
  worker.has_asked = worker.is_deferred = false;
  worker.untaken = 0;
  pace_.remove(rank);
}

}  // namespace weft
