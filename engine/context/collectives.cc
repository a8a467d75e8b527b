// What a call means: operands checked, peers and weights of this step found, the plan's shape
// chosen.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "engine/context/operands.h"

namespace weft {
namespace {

Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return Reduction::sum;
    case ReduceOp::average:
      return Reduction::weighted_sum;
    case ReduceOp::min:
      return Reduction::min;
    case ReduceOp::max:
      return Reduction::max;
    case ReduceOp::product:
      return Reduction::product;
    case ReduceOp::bit_and:
      return Reduction::bit_and;
    case ReduceOp::bit_or:
      return Reduction::bit_or;
    case ReduceOp::bit_xor:
      return Reduction::bit_xor;
  }
  return Reduction::sum;
}

Plan plan_of_neighbors(Collective collective, const View& view, Shape shape) {
  switch (collective) {
    case Collective::neighbor_allreduce:
      return plan_neighbor_allreduce(view, shape);
    case Collective::pair_average:
      return plan_pair_average(view, shape);
    case Collective::send:
      return view.in.empty() ? plan_send(view) : plan_receive(view);
    default:
      return plan_neighbor_allgather(view, shape);
  }
}

}  // namespace

// An average is a weighted sum with weights 1/ranks.
Status Context::Core::bind_reduction(std::string_view what, Call& call, DataType type, ReduceOp op,
                                     int ranks) {
  if (op == ReduceOp::average && !is_floating(type)) {
    return invalid(fmt::format("{}: the average of {} has no meaning; use sum, or a floating type",
                               what, name(type)));
  }
  call.reduction = reduction_of(op);
  call.scale = op == ReduceOp::average ? 1.0 / ranks : 1.0;
  return check_reduction(type, call.reduction);
}

// The plan of a neighbor operation depends on the degrees and on our place among the in-neighbors
// (sums run in rank order).
Status Context::Core::plan_neighbors(Invocation& invocation, Collective collective, bool in_place) {
  const Call& call = invocation.call;
  PlanKey key;
  key.collective = collective;
  key.in_place = in_place;
  key.in = static_cast<std::uint32_t>(call.in.size());
  key.out = static_cast<std::uint32_t>(call.out.size());
  for (const Contact* contact : call.in) key.position += contact->rank < config_.rank ? 1 : 0;
  WEFT_ASSIGN(invocation.plan, plan(key, [&]() -> Planned {
                View view{config_.rank, config_.size, {}, {}};
                for (const Contact* contact : call.in) view.in.push_back(contact->rank);
                for (const Contact* contact : call.out) view.out.push_back(contact->rank);
                Plan made = plan_of_neighbors(collective, view, Shape{in_place});
                return {std::move(view), std::move(made)};
              }));
  return {};
}

Status Context::Core::connect_graph() {
  graph_in_.clear();
  graph_out_.clear();
  graph_weights_.clear();
  for (const Peer& peer : graph_.in_edges(config_.rank)) {
    WEFT_ASSIGN(Contact * found, contact(peer.rank));
    graph_in_.push_back(found);
  }
  for (const Peer& peer : graph_.out_edges(config_.rank)) {
    WEFT_ASSIGN(Contact * found, contact(peer.rank));
    graph_out_.push_back(found);
  }
  const double uniform = 1.0 / static_cast<double>(graph_in_.size() + 1);
  for (const Peer& peer : graph_.in_edges(config_.rank))
    graph_weights_.push_back(weighted_ ? peer.weight : uniform);
  graph_self_weight_ = weighted_ ? graph_.self_weight(config_.rank) : uniform;
  graph_connected_ = true;
  return {};
}

Status Context::Core::use_graph_edges(Invocation& invocation) {
  if (!graph_connected_) WEFT_RETURN_IF_ERROR(connect_graph());
  invocation.call.in = graph_in_;
  invocation.call.out = graph_out_;
  return {};
}

// Weights for some of the graph's in-neighbors; the others still send, and what they send is not
// used.
Status Context::Core::bind_pull(Invocation& invocation, std::span<const NeighborWeight> sources) {
  WEFT_RETURN_IF_ERROR(use_graph_edges(invocation));
  const std::span<Contact* const> in = invocation.call.in;
  invocation.receive_weights.assign(in.size(), kUnused);
  for (const NeighborWeight& source : sources) {
    WEFT_RETURN_IF_ERROR(check_weight("neighbor_allreduce", source.weight, source.rank));
    const auto found = std::ranges::lower_bound(in, source.rank, {}, &Contact::rank);
    if (found == in.end() || (*found)->rank != source.rank) {
      return invalid(fmt::format(
          "neighbor_allreduce: src_weights names rank {}, which is no in-neighbor of rank "
          "{} in {}",
          source.rank, config_.rank, graph_.name()));
    }
    double& weight = invocation.receive_weights[static_cast<std::size_t>(found - in.begin())];
    if (!is_unused(weight)) {
      return invalid(
          fmt::format("neighbor_allreduce: src_weights names rank {} twice", source.rank));
    }
    weight = source.weight + 0.0;  // a weight of -0.0 means 0, not kUnused
  }
  invocation.call.receive_weights = invocation.receive_weights;
  return {};
}

// Pure push over the graph: who pushes in this step is known to the senders alone. So every
// out-neighbor hears from us, the chosen ones with data and the others that there is none, and data
// counts with the weight that its sender gave.
Status Context::Core::bind_push(Invocation& invocation, std::span<const NeighborWeight> targets) {
  WEFT_RETURN_IF_ERROR(use_graph_edges(invocation));
  const std::span<Contact* const> out = invocation.call.out;
  invocation.send_weights.assign(out.size(), kUnused);
  for (const NeighborWeight& target : targets) {
    WEFT_RETURN_IF_ERROR(check_weight("neighbor_allreduce", target.weight, target.rank));
    const auto found = std::ranges::lower_bound(out, target.rank, {}, &Contact::rank);
    if (found == out.end() || (*found)->rank != target.rank) {
      return invalid(fmt::format(
          "neighbor_allreduce: dst_weights names rank {}, which is no out-neighbor of rank "
          "{} in {}; give src_weights too for edges outside of the graph",
          target.rank, config_.rank, graph_.name()));
    }
    double& weight = invocation.send_weights[static_cast<std::size_t>(found - out.begin())];
    if (!is_unused(weight)) {
      return invalid(
          fmt::format("neighbor_allreduce: dst_weights names rank {} twice", target.rank));
    }
    weight = target.weight + 0.0;  // a weight of -0.0 means 0, not kUnused
  }
  invocation.call.send_weights = invocation.send_weights;
  return {};
}

// Sources and destinations of this call alone; edges need not be in the graph.
Status Context::Core::bind_dynamic(Invocation& invocation, const NeighborWeights& weights) {
  const auto bind_side = [&](std::span<const NeighborWeight> list, const char* what,
                             std::vector<Contact*>& peers, std::vector<double>& values) -> Status {
    if (!std::ranges::is_sorted(list, {}, &NeighborWeight::rank)) {
      sorted_.assign(list.begin(), list.end());
      std::ranges::sort(sorted_, {}, &NeighborWeight::rank);
      list = sorted_;
    }
    Rank previous = kNoRank;
    for (const NeighborWeight& entry : list) {
      if (!std::isfinite(entry.weight)) [[unlikely]]
        return check_weight("neighbor_allreduce", entry.weight, entry.rank);
      if (entry.rank < 0 || entry.rank >= config_.size || entry.rank == config_.rank) {
        return invalid(fmt::format(
            "neighbor_allreduce: {} names rank {}; it must be another of the ranks 0…{}", what,
            entry.rank, config_.size - 1));
      }
      if (entry.rank == previous) {
        return invalid(fmt::format("neighbor_allreduce: {} names rank {} twice", what, entry.rank));
      }
      previous = entry.rank;
      Contact* found = recent_contact(entry.rank);
      if (found == nullptr) {
        WEFT_ASSIGN(found, contact(entry.rank));
      }
      peers.push_back(found);
      values.push_back(entry.weight + 0.0);
    }
    return {};
  };
  WEFT_RETURN_IF_ERROR(
      bind_side(*weights.sources, "src_weights", invocation.in, invocation.receive_weights));
  WEFT_RETURN_IF_ERROR(
      bind_side(*weights.destinations, "dst_weights", invocation.out, invocation.send_weights));
  invocation.call.in = invocation.in;
  invocation.call.out = invocation.out;
  invocation.call.receive_weights = invocation.receive_weights;
  invocation.call.send_weights = invocation.send_weights;
  return {};
}

// Gives what was bound last the weights of this call, if they are for the same ranks in the same
// order. What is wrong with weights is found where they are bound anew.
bool Context::Core::reweigh(Invocation& invocation, const NeighborWeights& weights) {
  const auto reweigh_side = [](std::span<const NeighborWeight> list,
                               const std::vector<Contact*>& peers, std::vector<double>& values) {
    if (list.size() != peers.size()) return false;
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (list[k].rank != peers[k]->rank || !std::isfinite(list[k].weight)) return false;
      values[k] = list[k].weight + 0.0;
    }
    return true;
  };
  if (!std::isfinite(*weights.self)) return false;
  invocation.call.self_weight = *weights.self;
  return reweigh_side(*weights.sources, invocation.in, invocation.receive_weights) &&
         reweigh_side(*weights.destinations, invocation.out, invocation.send_weights);
}

Status Context::Core::invoke_neighbor_allreduce(Invocation& invocation, const Input& x,
                                                const Output& y, const NeighborWeights& weights) {
  WEFT_RETURN_IF_ERROR(check_same_count("neighbor_allreduce", x, y));
  WEFT_RETURN_IF_ERROR(check_weighted("neighbor_allreduce", x.type));
  bind(invocation.call, Collective::neighbor_allreduce, x, y);
  if ((weights.sources || weights.destinations) && !weights.self) {
    return invalid("neighbor_allreduce: src_weights and dst_weights need a self_weight");
  }
  if (weights.push_sum)
    WEFT_RETURN_IF_ERROR(check_push_sum("neighbor_allreduce", weights, "rank", config_.rank));
  if (weights.destinations && weights.sources) {
    WEFT_RETURN_IF_ERROR(bind_dynamic(invocation, weights));
  } else if (weights.destinations) {
    WEFT_RETURN_IF_ERROR(bind_push(invocation, *weights.destinations));
  } else if (weights.sources) {
    WEFT_RETURN_IF_ERROR(bind_pull(invocation, *weights.sources));
  } else {
    WEFT_RETURN_IF_ERROR(use_graph_edges(invocation));
    invocation.call.receive_weights = graph_weights_;
    invocation.call.self_weight = graph_self_weight_;
  }
  if (weights.self) {
    WEFT_RETURN_IF_ERROR(check_weight("neighbor_allreduce", *weights.self, config_.rank));
    invocation.call.self_weight = *weights.self;
  }
  return plan_neighbors(invocation, Collective::neighbor_allreduce, is_in_place(x, y));
}

Status Context::Core::invoke_neighbor_allgather(Invocation& invocation, const Input& x,
                                                const Output& y,
                                                std::span<const std::size_t> counts) {
  WEFT_RETURN_IF_ERROR(check_memory("neighbor_allgather", x, y));
  if (is_in_place(x, y))
    return invalid("neighbor_allgather: input and output must not be the same memory");
  bind(invocation.call, Collective::neighbor_allgather, x, y);
  WEFT_RETURN_IF_ERROR(use_graph_edges(invocation));
  if (!counts.empty() && counts.size() != invocation.call.in.size()) {
    return invalid(fmt::format("neighbor_allgather: {} counts for {} in-neighbors", counts.size(),
                               invocation.call.in.size()));
  }
  std::size_t offset = 0;
  for (std::size_t k = 0; k < invocation.call.in.size(); ++k) {
    const std::size_t count = counts.empty() ? x.count : counts[k];
    invocation.given.push_back({offset, count});
    offset += count;
  }
  if (offset != y.count) {
    return invalid(
        fmt::format("neighbor_allgather: the in-neighbors' parts have {} elements, the output {}",
                    offset, y.count));
  }
  invocation.call.given = invocation.given;
  return plan_neighbors(invocation, Collective::neighbor_allgather, false);
}

Status Context::Core::invoke_allreduce(Invocation& invocation, const Input& x, const Output& y,
                                       ReduceOp op, AllreduceAlgorithm algorithm) {
  WEFT_RETURN_IF_ERROR(check_same_count("allreduce", x, y));
  bind(invocation.call, Collective::allreduce, x, y);
  WEFT_RETURN_IF_ERROR(bind_reduction("allreduce", invocation.call, x.type, op, config_.size));
  const std::size_t bytes = x.count * size_of(x.type);
  WEFT_ASSIGN(const Layout* layout, layout_for(algorithm));
  WEFT_RETURN_IF_ERROR(check_allreduce(algorithm, config_.size, *layout));
  PlanKey key;
  key.collective = Collective::allreduce;
  key.algorithm = static_cast<std::uint8_t>(algorithm);
  key.in_place = is_in_place(x, y);
  key.bytes = bytes;
  return plan_everybody(invocation, key, [&] {
    return plan_allreduce(config_.rank, config_.size, bytes, Shape{key.in_place}, algorithm,
                          *layout);
  });
}

Status Context::Core::invoke_broadcast(Invocation& invocation, const Input& x, const Output& y,
                                       Rank root) {
  WEFT_RETURN_IF_ERROR(check_root("broadcast", root));
  const bool is_root = root == config_.rank;
  if (is_root) {
    WEFT_RETURN_IF_ERROR(check_same_count("broadcast", x, y));
  } else if (y.count != 0 && y.data == nullptr) {
    return invalid("broadcast: the output is null");
  }
  bind(invocation.call, Collective::broadcast, is_root ? x : Input{nullptr, y.count, y.type}, y);
  PlanKey key;
  key.collective = Collective::broadcast;
  key.in_place = is_root && is_in_place(x, y);
  key.root = root;
  const std::size_t bytes = y.count * size_of(y.type);
  key.bytes = bytes;
  return plan_everybody(invocation, key, [&] {
    return plan_broadcast(config_.rank, config_.size, root, bytes, Shape{key.in_place});
  });
}

Status Context::Core::invoke_barrier(Invocation& invocation) {
  bind(invocation.call, Collective::barrier, {}, {});
  PlanKey key;
  key.collective = Collective::barrier;
  return plan_everybody(invocation, key, [&] { return plan_barrier(config_.rank, config_.size); });
}

}  // namespace weft
