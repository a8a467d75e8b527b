// healing: requests in the numbers of the present core, and what belongs to one core.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/context/healing_call.h"
#include "engine/context/operands.h"
#include "scheduler/vocabulary/vocabulary.h"

namespace weft {

Status Context::Healing::translate(const Request& request, Translated& to) const {
  to.request = request;
  if (is_whole()) return {};
  const std::string_view what = name(request.collective);
  const auto lost = [&](Rank rank, std::string_view part) {
    return Status(Code::peer_died, fmt::format("{}: rank {}, {}, is gone", what, rank, part), rank);
  };
  if (request.needs_all && !is_of_some_ranks(request.collective))
    return lost(first_gone(), "which the call needs (needs_all)");
  if (has<kHasCounts>(request.collective))
    return lost(first_gone(),
                "which has a part in the result (Context::shrink() makes a context without it)");
  if (request.collective == Collective::hierarchical_neighbor_allreduce)
    return lost(
        first_gone(),
        "of which the graph of machines counts (Context::shrink() makes a context without it)");
  if (has<kHasRoot>(request.collective)) {
    if (!is_present(request.root)) return lost(request.root, "the root");
    to.request.root = number_of(request.root);
  }
  if (has<kHasPeer>(request.collective)) {
    if (!is_present(request.peer)) return lost(request.peer, "the other end");
    to.request.peer = number_of(request.peer);
  }
  for (const Rank rank : request.group) {
    if (!is_present(rank)) return lost(rank, "a member of the group");
    to.group.push_back(number_of(rank));
  }
  to.request.group = to.group;
  if (request.weights == nullptr || !has<kOnGraph>(request.collective)) return {};
  to.weights = *request.weights;
  // What went to or came from a rank that is gone stays here: the sum of the weights is as it was.
  const auto without_gone = [&](auto& side, std::vector<NeighborWeight>& into, bool keeps_sum) {
    if (!side) return;
    for (NeighborWeight each : *side) {
      if (!is_present(each.rank)) {
        if (keeps_sum && to.weights.self) *to.weights.self += each.weight;
        continue;
      }
      each.rank = number_of(each.rank);
      into.push_back(each);
    }
    side = into;
  };
  const bool pushes = to.weights.push_sum || !to.weights.sources;
  without_gone(to.weights.sources, to.sources, !pushes);
  without_gone(to.weights.destinations, to.destinations, pushes);
  to.request.weights = &to.weights;
  return {};
}

Rank Context::Healing::first_gone() const {
  return static_cast<Rank>(std::ranges::find(numbers_, kNoRank) - numbers_.begin());
}

Status Context::Healing::check_whole(const char* what) {
  const Lock lock(mutex_);
  WEFT_RETURN_IF_ERROR(check_inside(what));
  if (is_whole()) return {};
  const Rank gone = first_gone();
  return Status(
      Code::peer_died,
      fmt::format("{}: rank {} is gone; Context::shrink() makes a context without it", what, gone),
      gone);
}

Result<bool> Context::Healing::has_message(Rank from) {
  while (true) {
    Present in;
    Rank number = from;
    {
      Lock lock(mutex_);
      wait_until_healed(lock);
      WEFT_RETURN_IF_ERROR(failure_);
      WEFT_RETURN_IF_ERROR(check_inside("has_message"));
      in = present_;
      if (!is_present(from))
        return Status(Code::peer_died, fmt::format("has_message: rank {} is gone", from), from);
      number = number_of(from);
    }
    Result<bool> has = in->core->has_message(number);
    if (has.ok()) return has;
    const Status status = death_behind(*in->core, has.status());
    if (!is_gone(status)) return in_users_numbers(*in, status);
    WEFT_RETURN_IF_ERROR(heal(in, status));
  }
}

// Two calls of all ranks: the choices, and a barrier behind which nobody lacks them. A rank that has ended the
// barrier uses the new core, so the others must come there, even if the barrier ended for them by rule. If the two
// have ended in different cores, no rank knows whether all have the choices, and none has the new core.
Result<std::shared_ptr<Context::Core>> Context::Healing::split(int color, int key) {
  WEFT_RETURN_IF_ERROR(check_inside("split"));
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::min();
  std::vector<SplitChoice> own(numbers_.size(), {kNone, kNone}), all(own.size());
  own[static_cast<std::size_t>(config_.rank)] = {std::max(color, -1), key};
  Present chosen, met;
  const Status told = run(Request{.collective = Collective::allreduce,
                                  .input = {own.data(), 2 * own.size(), DataType::i32},
                                  .output = {all.data(), 2 * all.size(), DataType::i32},
                                  .op = ReduceOp::max},
                          chosen);
  if (!told.ok() && !is_gone(told)) return told;
  WEFT_RETURN_IF_ERROR(run(Request{.collective = Collective::barrier}, met));
  WEFT_RETURN_IF_ERROR(told);
  if (chosen != met)
    return Status(Code::peer_died, "split: a rank died during the call; the context goes on");
  std::vector<SplitChoice> present;
  for (const Rank rank : chosen->ranks) present.push_back(all[static_cast<std::size_t>(rank)]);
  return chosen->core->split(present);
}

// A run binds its call anew, as the core may be another one by then.
class Context::Healing::Again final : public PreparedOperation {
 public:
  Again(std::shared_ptr<Healing> healing, const Request& request)
      : healing_(std::move(healing)), request_(request) {}

  Status run() override {
    WEFT_RETURN_IF_ERROR(check());
    return healing_->run(request_.get());
  }
  Result<Handle> start() override {
    WEFT_RETURN_IF_ERROR(check());
    WEFT_ASSIGN(Handle handle, healing_->start(request_.get()));
    const std::lock_guard lock(mutex_);
    last_ = handle;
    return handle;
  }
  Result<std::optional<Handle>> run_for(std::int64_t patience_ns) override {
    WEFT_RETURN_IF_ERROR(check());
    WEFT_ASSIGN(std::optional<Handle> rest, healing_->run_for(request_.get(), patience_ns));
    const std::lock_guard lock(mutex_);
    if (rest) last_ = rest;
    return rest;
  }
  std::optional<Handle> started() override {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  Status check() {
    std::optional<Handle> last = started();
    if (!last || last->test()) return {};
    return invalid(fmt::format("{}: the run that was started last is under way",
                               name(request_.get().collective)));
  }

  const std::shared_ptr<Healing> healing_;
  const OwnedRequest request_;
  std::mutex mutex_;
  std::optional<Handle> last_;
};

Result<Prepared> Context::Healing::prepare(const Request& request) {
  std::shared_ptr<Core> whole;
  {
    const Lock lock(mutex_);
    WEFT_RETURN_IF_ERROR(failure_);
    WEFT_RETURN_IF_ERROR(check_inside(name(request.collective)));
    if (is_whole()) whole = present_->core;
  }
  if (whole != nullptr) {
    const Status status = whole->prepare(request).status();
    if (!status.ok() && !is_gone(status)) return status;
  }
  return Prepared(std::make_shared<Again>(shared_from_this(), request));
}

}  // namespace weft
