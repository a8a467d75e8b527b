// Operations of some ranks: send and recv, pairs, groups. The others do not call them, so they have
// no place in the order that all ranks share, and the two ends of a message find each other
// differently:
//
// All of them use one channel. Between two ranks that is one ordered stream in each direction, and
// an operation holds the streams that it uses, from its call to its end: a send the one to its
// receiver, a recv the one from its sender, an average both with every member that it talks to. One
// whose streams are free starts at once, whatever else waits; one that shares a stream with an
// earlier operation waits for that. So the only order that matters is that of the operations which
// two ranks share, in each direction, and the k-th of the one is the k-th of the other. A rank that
// calls them in another order finds the wrong operation, group, type or size at the front of a
// stream, which is an error on both sides; operations that wait for one another in a circle end by
// the deadline.
#include <fmt/core.h>

#include <algorithm>

#include "engine/context/operands.h"

namespace weft {
namespace {

// The same on all members, and nearly always different for different groups: the collective, the
// sizes and the streams themselves tell the rest apart.
std::uint32_t identity_of(std::span<const Rank> members) {
  std::uint32_t hash = 0x811c9dc5;
  for (const Rank rank : members) {
    hash = (hash ^ static_cast<std::uint32_t>(rank)) * 0x01000193;
    hash ^= hash >> 15;
  }
  return hash;
}

}  // namespace

// The operation that a blocking call runs as; the last one's, unless two threads call at once.
std::shared_ptr<PendingOperation> Context::Core::spare_operation() {
  std::shared_ptr<PendingOperation> operation = std::exchange(spare_operation_, nullptr);
  if (operation == nullptr) {
    ++allocations_;
    operation = std::make_shared<PendingOperation>(weak_from_this());
  }
  operation->invocation.clear();
  operation->status = {};
  operation->done.store(false, std::memory_order_relaxed);
  return operation;
}

Status Context::Core::run_partial_to_end(std::shared_ptr<PendingOperation> operation) {
  enqueue_partial(operation);
  drive_to_end(*operation);
  Status status = operation->status;
  spare_operation_ = std::move(operation);
  return status;
}

void Context::Core::enqueue_partial(std::shared_ptr<PendingOperation> operation) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  partial_queue_.push_back(std::move(operation));
  start_partial_queued();
  advance_all();
  flush();
}

// Claims the streams of an operation for this look. True if none was claimed before.
bool Context::Core::claim(const Call& call) {
  bool is_free = true;
  const auto take = [&](std::uint64_t& claimed) {
    is_free &= claimed != looks_;
    claimed = looks_;
  };
  // With credits notices go both ways.
  const bool both_ways = call.checks_graph;
  for (Contact* contact : call.in) {
    take(contact->claimed_in);
    if (both_ways) take(contact->claimed_out);
  }
  for (Contact* contact : call.out) {
    const bool is_mutual = both_ways && std::ranges::find(call.in, contact) != call.in.end();
    if (is_mutual) continue;
    take(contact->claimed_out);
    if (both_ways) take(contact->claimed_in);
  }
  return is_free;
}

// Starts what waits, in the order of the calls, as far as streams are free.
void Context::Core::start_partial_queued() {
  partial_ended_ = false;
  if (partial_queue_.empty()) return;
  ++looks_;
  for (Slot* slot : running_) {
    if (slot->is_partial) claim(slot->invocation.call);
  }
  std::size_t waiting = 0;
  for (std::shared_ptr<PendingOperation>& operation : partial_queue_) {
    if (!claim(operation->invocation.call)) {
      std::swap(partial_queue_[waiting++], operation);
      continue;
    }
    Slot& slot = idle_partial_slot();
    std::swap(slot.invocation, operation->invocation);
    slot.operation = std::move(operation);
    begin(slot);
  }
  partial_queue_.resize(waiting);
}

// As many run at once as there are streams: never more than two for each peer.
Context::Core::Slot& Context::Core::idle_partial_slot() {
  if (idle_partial_slots_.empty()) {
    const auto channel = static_cast<std::uint32_t>(config_.channels) + 1;
    partial_slots_.push_back(std::make_unique<Slot>(execution_options(channel)));
    partial_slots_.back()->is_partial = true;
    ++allocations_;
    return *partial_slots_.back();
  }
  Slot& slot = *idle_partial_slots_.back();
  idle_partial_slots_.pop_back();
  return slot;
}

Result<Contact*> Context::Core::other_rank(std::string_view what, Rank rank) {
  if (rank < 0 || rank >= config_.size || rank == config_.rank) {
    return invalid(
        fmt::format("{}: rank {} must be another of the ranks 0…{}", what, rank, config_.size - 1));
  }
  return contact(rank);
}

Status Context::Core::invoke_send(Invocation& invocation, const Input& x, Rank to) {
  WEFT_RETURN_IF_ERROR(check_memory("send", x, {nullptr, 0, x.type}));
  WEFT_ASSIGN(Contact * peer, other_rank("send", to));
  bind(invocation.call, Collective::send, x, {nullptr, 0, x.type});
  invocation.out.push_back(peer);
  invocation.call.out = invocation.out;
  invocation.call.checks_graph = false;
  return plan_neighbors(invocation, Collective::send, false);
}

Status Context::Core::invoke_recv(Invocation& invocation, const Output& y, Rank from) {
  WEFT_RETURN_IF_ERROR(check_memory("recv", {nullptr, 0, y.type}, y));
  WEFT_ASSIGN(Contact * peer, other_rank("recv", from));
  bind(invocation.call, Collective::send, {nullptr, 0, y.type}, y);
  invocation.in.push_back(peer);
  invocation.call.in = invocation.in;
  invocation.call.checks_graph = false;
  return plan_neighbors(invocation, Collective::send, false);
}

Status Context::Core::invoke_pair_average(Invocation& invocation, const Input& x, const Output& y,
                                          Rank peer, double self_weight, double pair_weight) {
  WEFT_RETURN_IF_ERROR(check_same_count("pair_average", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("pair_average", x.type));
  WEFT_RETURN_IF_ERROR(check_weight("pair_average", self_weight, config_.rank));
  WEFT_RETURN_IF_ERROR(check_weight("pair_average", pair_weight, peer));
  WEFT_ASSIGN(Contact * other, other_rank("pair_average", peer));
  bind(invocation.call, Collective::pair_average, x, y);
  invocation.in.push_back(other);
  invocation.receive_weights.push_back(pair_weight + 0.0);  // a weight of -0.0 means 0, not kUnused
  invocation.call.in = invocation.call.out = invocation.in;
  invocation.call.receive_weights = invocation.receive_weights;
  invocation.call.self_weight = self_weight;
  return plan_neighbors(invocation, Collective::pair_average, is_in_place(x, y));
}

// The group's ranks, ascending, go to group_; `place` is where this rank is among them.
Status Context::Core::place_in_group(std::span<const Rank> ranks, int& place) {
  group_.assign(ranks.begin(), ranks.end());
  std::ranges::sort(group_);
  for (const Rank rank : group_) {
    if (rank >= 0 && rank < config_.size) continue;
    return invalid(
        fmt::format("group_average: rank {} is not one of the ranks 0…{}", rank, config_.size - 1));
  }
  if (const auto twice = std::ranges::adjacent_find(group_); twice != group_.end()) {
    return invalid(fmt::format("group_average: rank {} is in the group twice", *twice));
  }
  const auto own = std::ranges::lower_bound(group_, config_.rank);
  if (own == group_.end() || *own != config_.rank) {
    return invalid(fmt::format("group_average: rank {} is not in its group", config_.rank));
  }
  place = static_cast<int>(own - group_.begin());
  return {};
}

Status Context::Core::invoke_group_average(Invocation& invocation, const Input& x, const Output& y,
                                           std::span<const Rank> ranks) {
  WEFT_RETURN_IF_ERROR(check_same_count("group_average", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("group_average", x.type));
  int place = 0;
  WEFT_RETURN_IF_ERROR(place_in_group(ranks, place));
  const auto size = static_cast<int>(group_.size());
  bind(invocation.call, Collective::group_average, x, y);
  WEFT_RETURN_IF_ERROR(
      bind_reduction("group_average", invocation.call, x.type, ReduceOp::average, size));
  invocation.call.operation = identity_of(group_);
  PlanKey key;
  key.collective = Collective::group_average;
  key.in_place = is_in_place(x, y);
  key.in = static_cast<std::uint32_t>(size);
  key.position = static_cast<std::uint32_t>(place);
  key.bytes = x.count * size_of(x.type);
  WEFT_ASSIGN(invocation.plan, plan(key, [&] {
                return plan_group_average(place, size, key.bytes, Shape{key.in_place});
              }));
  const auto connect = [&](const std::vector<Rank>& places,
                           std::vector<Contact*>& peers) -> Status {
    for (const Rank at : places) {
      WEFT_ASSIGN(Contact * found, contact(group_[static_cast<std::size_t>(at)]));
      peers.push_back(found);
    }
    return {};
  };
  WEFT_RETURN_IF_ERROR(connect(invocation.plan->view.in, invocation.in));
  WEFT_RETURN_IF_ERROR(connect(invocation.plan->view.out, invocation.out));
  invocation.call.in = invocation.in;
  invocation.call.out = invocation.out;
  return {};
}

}  // namespace weft
