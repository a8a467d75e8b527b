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

Result<PeerConnection*> Binder::other_rank(std::string_view what, Rank rank) {
  if (rank < 0 || rank >= config_.size || rank == config_.rank) {
    return invalid(
        fmt::format("{}: rank {} must be another of the ranks 0…{}", what, rank, config_.size - 1));
  }
  return peers_.connection(rank);
}

Status Binder::send(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output none{nullptr, 0, x.type};
  WEFT_RETURN_IF_ERROR(check_memory("send", x, none));
  WEFT_ASSIGN(PeerConnection * peer, other_rank("send", request.peer));
  bind_operands(bound_call.call, Collective::send, x, none);
  bound_call.out.push_back(peer);
  bound_call.call.out = bound_call.out;
  bound_call.call.checks_graph = false;
  return plan_neighbors(bound_call, Collective::send, false);
}

Status Binder::recv(const Request& request, BoundCall& bound_call) {
  const Output& y = request.output;
  const Input none{nullptr, 0, y.type};
  WEFT_RETURN_IF_ERROR(check_memory("recv", none, y));
  WEFT_ASSIGN(PeerConnection * peer, other_rank("recv", request.peer));
  bind_operands(bound_call.call, Collective::send, none, y);
  bound_call.in.push_back(peer);
  bound_call.call.in = bound_call.in;
  bound_call.call.checks_graph = false;
  return plan_neighbors(bound_call, Collective::send, false);
}

Status Binder::pair_average(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count("pair_average", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("pair_average", x.type));
  WEFT_RETURN_IF_ERROR(check_weight("pair_average", request.self_weight, config_.rank));
  WEFT_RETURN_IF_ERROR(check_weight("pair_average", request.pair_weight, request.peer));
  WEFT_ASSIGN(PeerConnection * other, other_rank("pair_average", request.peer));
  bind_operands(bound_call.call, Collective::pair_average, x, y);
  bound_call.in.push_back(other);
  bound_call.receive_weights.push_back(request.pair_weight + 0.0);  // -0.0 means 0, not kUnused
  bound_call.call.in = bound_call.call.out = bound_call.in;
  bound_call.call.receive_weights = bound_call.receive_weights;
  bound_call.call.self_weight = request.self_weight;
  return plan_neighbors(bound_call, Collective::pair_average, is_in_place(x, y));
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

Status Binder::group_average(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  WEFT_RETURN_IF_ERROR(check_same_count("group_average", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("group_average", x.type));
  int place = 0;
  WEFT_RETURN_IF_ERROR(place_in_group(request.group, place));
  const auto size = static_cast<int>(group_.size());
  bind_operands(bound_call.call, Collective::group_average, x, y);
  WEFT_RETURN_IF_ERROR(
      bind_reduction("group_average", bound_call.call, x.type, ReduceOp::average, size));
  bound_call.call.operation = identity_of(group_);
  PlanKey key;
  key.collective = Collective::group_average;
  key.bits = bits_of(request, config_.bits);
  key.in_place = is_in_place(x, y);
  key.in = static_cast<std::uint32_t>(size);
  key.position = static_cast<std::uint32_t>(place);
  key.bytes = x.count * size_of(x.type);
  WEFT_ASSIGN(const CachedPlan* plan, plans_.get(key, [&] {
    return plan_group_average(place, size, key.bytes, Shape{key.in_place}, key.bits);
  }));
  bound_call.plan = &plan->plan;
  bound_call.trace_name = plan->trace_name;
  const auto connect = [&](const std::vector<Rank>& places,
                           std::vector<PeerConnection*>& peers) -> Status {
    for (const Rank at : places) {
      WEFT_ASSIGN(PeerConnection * found, peers_.connection(group_[static_cast<std::size_t>(at)]));
      peers.push_back(found);
    }
    return {};
  };
  WEFT_RETURN_IF_ERROR(connect(plan->view.in, bound_call.in));
  WEFT_RETURN_IF_ERROR(connect(plan->view.out, bound_call.out));
  bound_call.call.in = bound_call.in;
  bound_call.call.out = bound_call.out;
  return {};
}

}  // namespace weft
