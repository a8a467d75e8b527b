// healing: how ranks that have come back are let in.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/context/healing_call.h"
#include "engine/context/operands.h"
#include "scheduler/vocabulary/vocabulary.h"

namespace weft {
namespace {

constexpr std::int64_t kGoodbyeMs = 1000;

}  // namespace

void Context::Healing::finish_all() {
  std::vector<std::shared_ptr<Call>> all;
  {
    const Lock lock(mutex_);
    all = in_flight_;
  }
  for (const std::shared_ptr<Call>& call : all) (void)finish(*call);
}

Status Context::Healing::check_inside(std::string_view what) const {
  if (!is_outside_) return {};
  return Status(Code::unavailable,
                fmt::format("{}: rank {} has come back to its job and is not let in yet; its first "
                            "call is admit()",
                            what, config_.rank),
                config_.rank);
}

Result<std::vector<Rank>> Context::Healing::admit(std::span<const Output> state) {
  WEFT_RETURN_IF_ERROR(check_state(state));
  if (!first_->rank_map().is_jobs_own())
    return invalid(
        "admit: ranks are let in to the job's own context, not to one of split() or shrink()");
  finish_all();
  bool is_outside = false;
  {
    Lock lock(mutex_);
    wait_until_healed(lock);
    WEFT_RETURN_IF_ERROR(failure_);
    if (state_ != nullptr) return invalid("admit: another thread is in admit()");
    forget_ended();
    if (!in_flight_.empty() || blocking_ != 0)
      return invalid("admit: an operation of another thread is in flight");
    state_ = &state;
    let_in_.clear();
    is_outside = is_outside_;
  }
  const Status status = is_outside ? wait_outside() : let_in();
  if (is_outside && !status.ok()) {
    // The others do not wait for it any more.
    Store& store = first_->rank_map().events().store();
    store.set_failure(status);
    (void)store.goodbye(Deadline::after_ms(kGoodbyeMs));
  }
  Lock lock(mutex_);
  wait_until_healed(lock);
  state_ = nullptr;
  WEFT_RETURN_IF_ERROR(status);
  return let_in_;
}

// Asks all ranks whether one of them knows of somebody who waits. When the answer is there, all have called
// admit(), and so no rank is in the middle of a step.
Status Context::Healing::let_in() {
  const auto adopted = [this] {
    const Lock lock(mutex_);
    return present_;
  };
  const int number = adopted()->core->rank_map().entrances();
  const std::uint64_t here = waiting_outside(*adopted()).size();
  std::uint64_t most = 0;
  const Status asked = run(Request{.collective = Collective::allreduce,
                                   .input = {&here, 1, DataType::u64},
                                   .output = {&most, 1, DataType::u64},
                                   .op = ReduceOp::max});
  std::uint64_t resumed_at = 0;
  Present in;
  {
    const Lock lock(mutex_);
    WEFT_RETURN_IF_ERROR(failure_);
    in = present_;
    resumed_at = calls_;
  }
  const RankMap& map = in->core->rank_map();
  // A rank has died, and others were let in on the way.
  if (map.entrances() != number) return {};
  if (!asked.ok()) return is_gone(asked) ? Status() : asked;
  if (most == 0) return {};
  if (in->ranks.front() == config_.rank) {
    WEFT_RETURN_IF_ERROR(map.put(kEntranceKey, new_entrance(*in, resumed_at).to_text()));
  } else {
    const Status read =
        map.get_from(0, kEntranceKey, Deadline::after_ms(config_.deadline_ms)).status();
    if (is_gone(read)) return heal(in, read);
    WEFT_RETURN_IF_ERROR(in_users_numbers(*in, read));
  }
  return heal(in, {});
}

std::vector<Incarnation> Context::Healing::waiting_outside(const Survivors& members) const {
  const RankMap& map = members.core->rank_map();
  std::vector<Incarnation> waiting = map.events().returned();
  // Who has come back may be busy with something else for long.
  std::erase_if(waiting, [&](const Incarnation& each) {
    return std::ranges::binary_search(members.ranks, each.rank) ||
           !map.events()
                .store()
                .get(waiting_key(each, first_->number()), Deadline::after_ms(0))
                .ok();
  });
  return waiting;
}

Entrance Context::Healing::new_entrance(const Survivors& members, std::uint64_t resumed_at) {
  const RankMap& map = members.core->rank_map();
  Entrance entrance{
      .number = map.entrances() + 1, .resumed_at = resumed_at, .members = {}, .newcomers = {}};
  for (Rank rank = 0; rank < map.size(); ++rank) {
    if (!map.events().is_gone(map.incarnation(rank)))
      entrance.members.push_back(map.incarnation(rank));
  }
  const std::vector<Incarnation> waiting = waiting_outside(members);
  const Lock lock(mutex_);
  for (const Incarnation& each : waiting) {
    Newcomer newcomer{each, members.ranks.front()};
    for (const Peer& neighbor : given_.in_edges(each.rank)) {
      if (!std::ranges::binary_search(members.ranks, neighbor.rank)) continue;
      newcomer.giver = neighbor.rank;
      break;
    }
    entrance.newcomers.push_back(newcomer);
  }
  return entrance;
}

GivenGraph Context::Healing::given_graph() {
  const Lock lock(mutex_);
  return {given_, weighted_};
}

// Waits for the entrance that names this rank.
Status Context::Healing::wait_outside() {
  constexpr std::int64_t kTurnMs = 100;
  const RankMap& map = first_->rank_map();
  StoreEvents& events = map.events();
  const Incarnation own{config_.rank, events.store().incarnation()};
  const std::string key = invitation_key(own, first_->number());
  const Deadline deadline = Deadline::after_ms(config_.deadline_ms);
  WEFT_RETURN_IF_ERROR(events.store().put(waiting_key(own, first_->number()), "yes"));
  while (true) {
    const Result<std::string> text = events.store().get(
        key, Deadline::after_ms(std::min<std::int64_t>(kTurnMs, deadline.left_ms())));
    if (text.ok()) {
      WEFT_ASSIGN(Entrance entrance, Entrance::from_text(*text, config_.size));
      return heal(present_, {}, std::move(entrance));
    }
    if (text.status().code() != Code::timed_out) return text.status();
    if (!is_anybody_inside()) {
      return Status(
          Code::unavailable,
          fmt::format("admit: rank {} has come back, and nobody is left who could let it in",
                      own.rank));
    }
    if (deadline.passed()) {
      return Status(
          Code::timed_out,
          fmt::format("admit: rank {} has come back, and the others have not called admit() "
                      "for {} ms",
                      own.rank, config_.deadline_ms));
    }
  }
}

// Whether another rank may be a member: it is there as it was at first, or was let in.
bool Context::Healing::is_anybody_inside() const {
  StoreEvents& events = first_->rank_map().events();
  const std::vector<Incarnation> returned = events.returned();
  if (events.count_gone() + std::ssize(returned) < config_.size - 1) return true;
  return std::ranges::any_of(returned, [&](const Incarnation& each) {
    const std::string key = invitation_key(each, first_->number());
    return each.rank != config_.rank && events.store().get(key, Deadline::after_ms(0)).ok();
  });
}

// Reads the entrance of the core that is left.
Result<const Entrance*> Context::Healing::look(Passage& passage) {
  const Entrance* none = nullptr;
  if (passage.entrance) return &*passage.entrance;
  const RankMap& map = passage.from->core->rank_map();
  // The store is asked, whatever its events say: those of a rank that has come back may be on their way still when
  // another one has let it in.
  const Result<std::string> text = map.get_now(kEntranceKey);
  if (!text.ok()) return none;  // none yet; or never, if who would write it is gone
  WEFT_ASSIGN(Entrance entrance, Entrance::from_text(*text, config_.size));
  // Whoever knows of the entrance invites, so that the death of the writer is in nobody's way.
  for (const Newcomer& each : entrance.newcomers) {
    const Status invited =
        map.events().store().put(invitation_key(each.who, first_->number()), *text);
    // It was invited before, could not come in, and will have left in a moment.
    if (!invited.ok() && invited.code() != Code::mismatch) return invited;
  }
  passage.entrance = std::move(entrance);
  return &*passage.entrance;
}

// The first that ranks do together in a new core: they agree on the call with which they go on, and on who
// needs the state. That a rank needs it, the others know only inside admit(), where they have it at hand.
Status Context::Healing::meet(const Survivors& all, Passage& passage) {
  std::vector<std::uint64_t> own(1 + numbers_.size(), 0), most(own.size());
  {
    const Lock lock(mutex_);
    own[0] = passage.entrance ? std::max(done_, passage.entrance->resumed_at) : done_;
    // A call that cannot run again here must run nowhere.
    for (const std::shared_ptr<Call>& call : in_flight_) {
      const bool has_begun = call->in != nullptr && call->index != kNotCounted;
      if (has_begun && !call->why_not_again().empty()) own[0] = std::max(own[0], call->index + 1);
    }
  }
  own[1 + static_cast<std::size_t>(config_.rank)] = needs_state_ ? 1 : 0;
  WEFT_RETURN_IF_ERROR(all.core->run(Request{.collective = Collective::allreduce,
                                             .input = {own.data(), own.size(), DataType::u64},
                                             .output = {most.data(), most.size(), DataType::u64},
                                             .op = ReduceOp::max}));
  passage.resumed_at = most[0];
  if (std::all_of(most.begin() + 1, most.end(), [](std::uint64_t needs) { return needs == 0; }))
    return {};
  return hand_over(all, std::span(most).subspan(1), passage);
}

Status Context::Healing::hand_over(const Survivors& all, std::span<const std::uint64_t> needs,
                                   const Passage& passage) {
  const auto needs_it = [&](Rank rank) { return needs[static_cast<std::size_t>(rank)] != 0; };
  const auto number = [&](Rank rank) {
    return static_cast<Rank>(std::ranges::find(all.ranks, rank) - all.ranks.begin());
  };
  const auto first = std::ranges::find_if_not(all.ranks, needs_it);
  if (first == all.ranks.end() || state_ == nullptr)
    return Status(Code::unavailable, "admit: no rank is left that has the state");
  for (const Rank rank : all.ranks) {
    if (!needs_it(rank)) continue;
    Rank giver = *first;
    if (passage.entrance) {
      const auto named = std::ranges::find(passage.entrance->newcomers, rank,
                                           [](const Newcomer& each) { return each.who.rank; });
      const bool can_give = named != passage.entrance->newcomers.end() &&
                            std::ranges::binary_search(all.ranks, named->giver) &&
                            !needs_it(named->giver);
      if (can_give) giver = named->giver;
    }
    if (giver == config_.rank) {
      WEFT_RETURN_IF_ERROR(give_graph(*all.core, number(rank), given_graph()));
      WEFT_RETURN_IF_ERROR(give_state(*all.core, number(rank), *state_));
    }
    if (rank == config_.rank) {
      WEFT_ASSIGN(GivenGraph taken, take_graph(*all.core, number(giver), config_.size));
      WEFT_RETURN_IF_ERROR(take_state(*all.core, number(giver), *state_));
      needs_state_ = false;
      const Lock lock(mutex_);
      given_ = taken.graph;
      weighted_ = taken.weighted;
    }
  }
  // Nobody leaves admit() before all have the state.
  return all.core->run(Request{.collective = Collective::barrier});
}

}  // namespace weft
