// allreduce: which algorithm, and why. The numbers below are for ranks of one machine, where a
// message costs a cache line's trip and a byte costs memory bandwidth.
#include <fmt/format.h>

#include <utility>

#include "scheduler/plan/allreduce_algorithms.h"
#include "scheduler/plan/builder.h"

namespace weft {
namespace {

// direct reads n M per rank, split 2 M, but split waits once more. Up to about this much, reading
// (it comes from a shared cache) costs less than the wait of a few microseconds.
constexpr std::size_t kDirectReadBytes = 64 << 10;
// Two ranks read 2 M either way; only split's halved write tells, so direct stays ahead for longer.
constexpr std::size_t kDirectPairBytes = 256 << 10;
// direct and split need an edge, and so a slot, for every other rank. Beyond this many ranks that
// memory and the polling of it outweigh their few phases.
constexpr int kCompleteRanks = 64;
// A ring waits 2(n-1) times, so each wait must move a block that is worth it.
constexpr std::size_t kRingBlockBytes = 16 << 10;

struct Choice {
  AllreduceAlgorithm algorithm;
  std::string reason;
};

Choice choose(int size, std::size_t bytes) {
  const auto n = static_cast<std::size_t>(size);
  const std::string what = fmt::format("{} bytes on {} ranks", bytes, size);
  if (size == 2) {
    if (bytes <= kDirectPairBytes) {
      return {AllreduceAlgorithm::direct,
              fmt::format("{}: a pair reads directly up to {} bytes", what, kDirectPairBytes)};
    }
    return {AllreduceAlgorithm::split,
            fmt::format("{}: a pair splits above {} bytes", what, kDirectPairBytes)};
  }
  if (size <= kCompleteRanks) {
    if (bytes <= kDirectReadBytes / n) {
      return {AllreduceAlgorithm::direct,
              fmt::format("{}: n * bytes is at most {}, one wait is best", what, kDirectReadBytes)};
    }
    return {AllreduceAlgorithm::split,
            fmt::format("{}: n * bytes is above {}, reading less is best", what, kDirectReadBytes)};
  }
  if (bytes / n >= kRingBlockBytes) {
    return {AllreduceAlgorithm::ring,
            fmt::format("{}: above {} ranks with blocks of at least {} bytes, "
                        "two edges per rank are best",
                        what, kCompleteRanks, kRingBlockBytes)};
  }
  return {AllreduceAlgorithm::halving_doubling,
          fmt::format("{}: above {} ranks with blocks below {} bytes, 2 log2 n waits are best",
                      what, kCompleteRanks, kRingBlockBytes)};
}

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

}  // namespace

std::string_view name(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::automatic:
      return "automatic";
    case AllreduceAlgorithm::direct:
      return "direct";
    case AllreduceAlgorithm::split:
      return "split";
    case AllreduceAlgorithm::ring:
      return "ring";
    case AllreduceAlgorithm::halving_doubling:
      return "halving_doubling";
  }
  return "unknown";
}

Planned plan_allreduce(Rank rank, int size, std::size_t bytes, Shape shape,
                       AllreduceAlgorithm algorithm) {
  invariant(rank >= 0, "a rank is not negative");
  invariant(rank < size, "a rank is below the size");
  if (size == 1) return plan_alone(shape);
  Choice choice =
      algorithm == AllreduceAlgorithm::automatic
          ? choose(size, bytes)
          : Choice{algorithm, fmt::format("{} bytes on {} ranks: asked for by name", bytes, size)};
  switch (choice.algorithm) {
    case AllreduceAlgorithm::automatic:
      break;  // choose() never answers this
    case AllreduceAlgorithm::direct:
      return plan_allreduce_direct(rank, size, shape, std::move(choice.reason));
    case AllreduceAlgorithm::split:
      return plan_allreduce_split(rank, size, shape, std::move(choice.reason));
    case AllreduceAlgorithm::ring:
      return plan_allreduce_ring(rank, size, shape, std::move(choice.reason));
    case AllreduceAlgorithm::halving_doubling:
      return plan_allreduce_halving_doubling(rank, size, shape, std::move(choice.reason));
  }
  invariant(false, "an allreduce has an algorithm");
  return {};
}

}  // namespace weft
