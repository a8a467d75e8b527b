// binder: subset operations: send, recv, pair_average and group_average. engine/lane/admission.h
// describes when they begin.
#include <fmt/core.h>

#include <algorithm>

#include "engine/context/binder.h"
#include "engine/context/operands.h"

namespace weft {
namespace {

// A number for a group: the same at all its ranks, and nearly always different for different
// groups. It stands in the messages, so that a rank finds out if a message is of another group.
std::uint32_t identity_of(std::span<const Rank> members) {
  const std::uint64_t hash =
      fnv1a64({reinterpret_cast<const char*>(members.data()), members.size_bytes()});
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

}  // namespace

Result<Contact*> Binder::other_rank(std::string_view what, Rank rank) {
  if (rank < 0 || rank >= config_.size || rank == config_.rank) {
    return invalid(
        fmt::format("{}: rank {} must be another of the ranks 0…{}", what, rank, config_.size - 1));
  }
  return peers_.contact(rank);
}

Status Binder::send(const Request& request, Invocation& invocation) {
  const Input& x = request.input;
  const Output none{nullptr, 0, x.type};
  WEFT_RETURN_IF_ERROR(check_memory("send", x, none));
  WEFT_ASSIGN(Contact * peer, other_rank("send", request.peer));
  bind_operands(invocation.call, Collective::send, x, none);
  invocation.out.push_back(peer);
  invocation.call.out = invocation.out;
  invocation.call.checks_graph = false;
  return plan_neighbors(invocation, Collective::send, false);
}

Status Binder::recv(const Request& request, Invocation& invocation) {
  const Output& y = request.output;
  const Input none{nullptr, 0, y.type};
  WEFT_RETURN_IF_ERROR(check_memory("recv", none, y));
  WEFT_ASSIGN(Contact * peer, other_rank("recv", request.peer));
  bind_operands(invocation.call, Collective::send, none, y);
  invocation.in.push_back(peer);
  invocation.call.in = invocation.in;
  invocation.call.checks_graph = false;
  return plan_neighbors(invocation, Collective::send, false);
}

Status Binder::pair_average(const Request& request, Invocation& invocation) {
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count("pair_average", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("pair_average", x.type));
  WEFT_RETURN_IF_ERROR(check_weight("pair_average", request.self_weight, config_.rank));
  WEFT_RETURN_IF_ERROR(check_weight("pair_average", request.pair_weight, request.peer));
  WEFT_ASSIGN(Contact * other, other_rank("pair_average", request.peer));
  bind_operands(invocation.call, Collective::pair_average, x, y);
  invocation.in.push_back(other);
  invocation.receive_weights.push_back(request.pair_weight + 0.0);  // -0.0 means 0, not kUnused
  invocation.call.in = invocation.call.out = invocation.in;
  invocation.call.receive_weights = invocation.receive_weights;
  invocation.call.self_weight = request.self_weight;
  return plan_neighbors(invocation, Collective::pair_average, is_in_place(x, y));
}

// Puts the ranks of the group into group_, ascending. `place` becomes this rank's index there.
Status Binder::place_in_group(std::span<const Rank> ranks, int& place) {
  group_.assign(ranks.begin(), ranks.end());
  std::ranges::sort(group_);
  for (const Rank rank : group_) {
    if (rank >= 0 && rank < config_.size) continue;
    return invalid(
        fmt::format("group_average: rank {} is not one of the ranks 0…{}", rank, config_.size - 1));
  }
  if (const auto twice = std::ranges::adjacent_find(group_); twice != group_.end())
    return invalid(fmt::format("group_average: rank {} is in the group twice", *twice));
  const auto own = std::ranges::lower_bound(group_, config_.rank);
  if (own == group_.end() || *own != config_.rank)
    return invalid(fmt::format("group_average: rank {} is not in its group", config_.rank));
  place = static_cast<int>(own - group_.begin());
  return {};
}

Status Binder::group_average(const Request& request, Invocation& invocation) {
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count("group_average", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("group_average", x.type));
  int place = 0;
  WEFT_RETURN_IF_ERROR(place_in_group(request.group, place));
  const auto size = static_cast<int>(group_.size());
  bind_operands(invocation.call, Collective::group_average, x, y);
  WEFT_RETURN_IF_ERROR(
      bind_reduction("group_average", invocation.call, x.type, ReduceOp::average, size));
  invocation.call.operation = identity_of(group_);
  PlanKey key;
  key.collective = Collective::group_average;
  key.in_place = is_in_place(x, y);
  key.in = static_cast<std::uint32_t>(size);
  key.position = static_cast<std::uint32_t>(place);
  key.bytes = x.count * size_of(x.type);
  WEFT_ASSIGN(const CachedPlan* plan, plans_.get(key, [&] {
    return plan_group_average(place, size, key.bytes, Shape{key.in_place});
  }));
  invocation.plan = &plan->plan;
  invocation.trace_name = plan->trace_name;
  const auto connect = [&](const std::vector<Rank>& places,
                           std::vector<Contact*>& peers) -> Status {
    for (const Rank at : places) {
      WEFT_ASSIGN(Contact * found, peers_.contact(group_[static_cast<std::size_t>(at)]));
      peers.push_back(found);
    }
    return {};
  };
  WEFT_RETURN_IF_ERROR(connect(plan->view.in, invocation.in));
  WEFT_RETURN_IF_ERROR(connect(plan->view.out, invocation.out));
  invocation.call.in = invocation.in;
  invocation.call.out = invocation.out;
  return {};
}

}  // namespace weft
