// vocabulary: names and facts of the values that operations take (weft/types.h), which declares them.
#pragma once

#include <weft/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

// What an operation is, and which members of a Request it reads.
enum Fact : std::uint32_t {
  kReadsInput = 1,
  kWritesOutput = 2,
  kHasOperator = 4,
  kHasAlgorithm = 8,
  kHasRoot = 16,
  kHasPeer = 32,
  kHasPairWeights = 64,
  kHasCounts = 128,
  kHasReceiveCounts = 256,
  kHasGroup = 512,
  kHasWeights = 1024,
  kOfSomeRanks = 2048,    // the others do not call it
  kCanBeCut = 4096,       // lanes of a rank may share a large one
  kOnGraph = 8192,        // between the neighbors of a graph of ranks
  kSums = 16384,          // elements of several ranks become one
  kCommonResult = 32768,  // the ranks that call it end with the same output
  kInOut = kReadsInput | kWritesOutput,
};

struct CollectiveFacts {
  Collective collective;
  std::string_view name;
  std::uint32_t facts;
};

// The operations, by their number from 1. What an operation is stands here alone; names, bindings,
// checks and tools follow.
inline constexpr std::array<CollectiveFacts, kCollectives> kCollectiveFacts{{
    {Collective::neighbor_allreduce, "neighbor_allreduce",
     kInOut | kSums | kHasWeights | kCanBeCut | kOnGraph},
    {Collective::neighbor_allgather, "neighbor_allgather", kInOut | kHasCounts | kOnGraph},
    {Collective::allreduce, "allreduce",
     kInOut | kCommonResult | kSums | kHasOperator | kHasAlgorithm | kCanBeCut},
    {Collective::broadcast, "broadcast", kInOut | kCommonResult | kHasRoot | kCanBeCut},
    {Collective::barrier, "barrier", 0},
    {Collective::allgather, "allgather", kInOut | kCommonResult | kHasCounts},
    {Collective::reduce_scatter, "reduce_scatter", kInOut | kSums | kHasOperator | kHasCounts},
    {Collective::reduce, "reduce", kInOut | kSums | kHasOperator | kHasRoot | kCanBeCut},
    {Collective::gather, "gather", kInOut | kHasRoot | kHasCounts | kCanBeCut},
    {Collective::scatter, "scatter", kInOut | kHasRoot | kHasCounts},
    {Collective::alltoall, "alltoall", kInOut | kHasCounts | kHasReceiveCounts},
    {Collective::send, "send/recv", kInOut | kHasPeer | kOfSomeRanks},
    {Collective::pair_average, "pair_average",
     kInOut | kSums | kHasPeer | kHasPairWeights | kOfSomeRanks},
    {Collective::group_average, "group_average",
     kInOut | kCommonResult | kSums | kHasGroup | kOfSomeRanks},
    {Collective::hierarchical_neighbor_allreduce, "hierarchical_neighbor_allreduce",
     kInOut | kSums | kHasWeights | kCanBeCut},
    {Collective::local_allreduce, "local_allreduce",
     kInOut | kCommonResult | kSums | kHasOperator | kCanBeCut},
}};

// A bit for each operation of which the fact holds: bit n for the number n.
[[nodiscard]] consteval std::uint32_t collectives_with(Fact fact) {
  std::uint32_t found = 0;
  std::size_t number = 0;
  for (const CollectiveFacts& each : kCollectiveFacts) {
    if (static_cast<std::size_t>(each.collective) != ++number) throw "rows are in order";
    if ((each.facts & fact) != 0) found |= 1U << number;
  }
  return found;
}

template <Fact fact>
[[nodiscard]] constexpr bool has(Collective collective) {
  constexpr std::uint32_t kThose = collectives_with(fact);
  const auto number = static_cast<unsigned>(collective);
  return number <= kCollectives && (kThose >> number & 1) != 0;
}

}  // namespace weft
