// allreduce: the algorithms by name, and what they need.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/builder.h"
#include "scheduler/plan/machine_shares.h"

namespace weft {
namespace {

constexpr AllreduceAlgorithm kAlgorithms[] = {
    AllreduceAlgorithm::direct,     AllreduceAlgorithm::split,
    AllreduceAlgorithm::ring,       AllreduceAlgorithm::halving_doubling,
    AllreduceAlgorithm::bcube,      AllreduceAlgorithm::torus,
    AllreduceAlgorithm::multi_ring, AllreduceAlgorithm::hierarchical,
    AllreduceAlgorithm::nccl};

// One rank has its own input as the result, whatever the operator.
Planned plan_alone(Shape shape) {
  View view;
  PlanBuilder plan("allreduce", "copy", view);
  plan.partition_evenly(1);
  if (!shape.in_place) {
    plan.combine(Combining::copy, block_of(Buffer::output, 0U),
                 {local(block_of(Buffer::input, 0U))});
  }
  return {std::move(view), std::move(plan).finish("one rank has nobody to talk to")};
}

// NCCL moves everything.
Planned plan_by_nccl(Rank rank, int size, std::string reason) {
  View view = symmetric_view(rank, size, {});
  PlanBuilder plan("allreduce", "nccl", view);
  return {std::move(view), std::move(plan).finish(std::move(reason))};
}

Status check_layout(int size, const Layout& layout) {
  if (layout.rails < 1) {
    return {Code::invalid_argument, fmt::format("a layout cannot have {} rails", layout.rails)};
  }
  if (layout.machine.empty() || std::ssize(layout.machine) == size) {
    return check_machine_numbers(layout);
  }
  return {Code::invalid_argument, fmt::format("the layout has the machines of {} ranks, not of {}",
                                              layout.machine.size(), size)};
}

Planned plan_by(AllreduceChoice choice, Rank rank, int size, std::size_t bytes, Shape shape,
                const Layout& layout) {
  switch (choice.algorithm) {
    case AllreduceAlgorithm::automatic:
      break;  // choose_allreduce() never answers this
    case AllreduceAlgorithm::direct:
      return plan_allreduce_direct(rank, size, shape, std::move(choice.reason));
    case AllreduceAlgorithm::split:
      return plan_allreduce_split(rank, size, shape, std::move(choice.reason));
    case AllreduceAlgorithm::ring:
      return plan_allreduce_ring(rank, size, shape, std::move(choice.reason));
    case AllreduceAlgorithm::halving_doubling:
      return plan_allreduce_halving_doubling(rank, size, shape, std::move(choice.reason));
    case AllreduceAlgorithm::bcube:
      return plan_allreduce_bcube(rank, size, bytes, shape, layout, choice.reason);
    case AllreduceAlgorithm::torus:
      return plan_allreduce_torus(rank, size, bytes, shape, layout, choice.reason);
    case AllreduceAlgorithm::multi_ring:
      return plan_allreduce_multi_ring(rank, size, bytes, shape, layout, choice.reason);
    case AllreduceAlgorithm::hierarchical:
      return plan_allreduce_hierarchical(rank, shape, layout, choice.reason);
    case AllreduceAlgorithm::nccl:
      return plan_by_nccl(rank, size, std::move(choice.reason));
  }
  invariant(false, "an allreduce has an algorithm");
  return {};
}

}  // namespace

int Layout::machines() const {
  return machine.empty() ? 1 : *std::ranges::max_element(machine) + 1;
}

Result<AllreduceAlgorithm> allreduce_algorithm(std::string_view text) {
  if (text == "auto" || text == name(AllreduceAlgorithm::automatic)) {
    return AllreduceAlgorithm::automatic;
  }
  if (text == "mesh") return AllreduceAlgorithm::split;
  std::vector<std::string_view> names{"auto", "mesh"};
  for (const AllreduceAlgorithm algorithm : kAlgorithms) {
    if (text == name(algorithm)) return algorithm;
    names.push_back(name(algorithm));
  }
  return Status(Code::invalid_argument,
                fmt::format("there is no allreduce algorithm \"{}\": it is one of {}", text,
                            fmt::join(names, ", ")));
}

Status check_bits(AllreduceAlgorithm algorithm, Bits bits) {
  if (bits != Bits::fixed || algorithm == AllreduceAlgorithm::automatic ||
      sums_in_rank_order(algorithm))
    return {};
  return {Code::invalid_argument,
          fmt::format("allreduce: {} does not sum in rank order, as fixed bits need it; automatic, "
                      "direct and split do",
                      name(algorithm))};
}

Status check_allreduce(AllreduceAlgorithm algorithm, int size, const Layout& layout) {
  WEFT_RETURN_IF_ERROR(check_layout(size, layout));
  if (size == 1) return {};  // it has nobody to talk to, by whatever algorithm
  switch (algorithm) {
    case AllreduceAlgorithm::bcube:
      return check_bcube(size);
    case AllreduceAlgorithm::torus:
      return check_torus(size);
    case AllreduceAlgorithm::hierarchical:
      return check_hierarchical(size, layout);
    default:
      return {};
  }
}

Planned plan_allreduce(Rank rank, int size, std::size_t bytes, Shape shape,
                       AllreduceAlgorithm algorithm, const Layout& layout, Bits bits) {
  invariant(rank >= 0, "a rank is not negative");
  invariant(rank < size, "a rank is below the size");
  if (size == 1) return plan_alone(shape);
  if (algorithm != AllreduceAlgorithm::automatic) {
    std::string reason = fmt::format("{} bytes on {} ranks: asked for by name", bytes, size);
    return plan_by({algorithm, std::move(reason)}, rank, size, bytes, shape, layout);
  }
  if (bits != Bits::fixed) {
    if (const auto pieces = uneven_pieces(bytes, layout))
      return plan_allreduce_uneven(rank, bytes, shape, layout, *pieces);
    return plan_by(choose_allreduce(size, bytes, layout), rank, size, bytes, shape, layout);
  }
  AllreduceChoice choice = choose_in_rank_order(size, bytes, layout);
  if (choice.algorithm == AllreduceAlgorithm::split && is_chain_better(size, bytes, shape, layout))
    return plan_allreduce_chain(rank, bytes, shape, layout, choice.reason);
  return plan_by(std::move(choice), rank, size, bytes, shape, layout);
}

}  // namespace weft
