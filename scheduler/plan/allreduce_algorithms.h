// The allreduce algorithms behind plan_allreduce(), each for two ranks or more. Internal. All ranks
// get the same bits, because each block is combined in one defined order, wherever that happens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"

namespace weft {

// Which algorithm, and why.
struct AllreduceChoice {
  AllreduceAlgorithm algorithm;
  std::string reason;
};
[[nodiscard]] AllreduceChoice choose_allreduce(int size, std::size_t bytes, const Layout& layout);
// Of direct and split, which sum in rank order. The reason names what is given up for that.
[[nodiscard]] AllreduceChoice choose_in_rank_order(int size, std::size_t bytes,
                                                   const Layout& layout);
// Whether the chain, which sums in rank order too, can be used and is better.
[[nodiscard]] bool is_chain_better(int size, std::size_t bytes, Shape shape, const Layout& layout);
[[nodiscard]] Planned plan_allreduce_chain(Rank rank, std::size_t bytes, Shape shape,
                                           const Layout& layout, const std::string& reason);
[[nodiscard]] constexpr bool sums_in_rank_order(AllreduceAlgorithm algorithm) {
  return algorithm == AllreduceAlgorithm::direct || algorithm == AllreduceAlgorithm::split;
}

// The piece that each machine sums: units cuts[m] to cuts[m+1] of the last cut's.
struct UnevenPieces {
  std::vector<std::uint32_t> cuts;
  std::uint32_t turns;
  double time;  // of equal pieces' time, as far as rails count
};
// nullopt: equal pieces do, and the usual choice holds.
[[nodiscard]] std::optional<UnevenPieces> uneven_pieces(std::size_t bytes, const Layout& layout);
[[nodiscard]] Planned plan_allreduce_uneven(Rank rank, std::size_t bytes, Shape shape,
                                            const Layout& layout, const UnevenPieces& pieces);

[[nodiscard]] Planned plan_allreduce_direct(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_split(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_ring(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_halving_doubling(Rank rank, int size, Shape shape,
                                                      std::string reason);

// The following planners append to the reason how they use the layout. Their check must have
// accepted it.
[[nodiscard]] Planned plan_allreduce_multi_ring(Rank rank, int size, std::size_t bytes, Shape shape,
                                                const Layout& layout, const std::string& reason);
[[nodiscard]] Status check_bcube(int size);
[[nodiscard]] Planned plan_allreduce_bcube(Rank rank, int size, std::size_t bytes, Shape shape,
                                           const Layout& layout, const std::string& reason);
[[nodiscard]] Status check_torus(int size);
[[nodiscard]] Planned plan_allreduce_torus(Rank rank, int size, std::size_t bytes, Shape shape,
                                           const Layout& layout, const std::string& reason);
[[nodiscard]] Status check_hierarchical(int size, const Layout& layout);
[[nodiscard]] Planned plan_allreduce_hierarchical(Rank rank, Shape shape, const Layout& layout,
                                                  const std::string& reason);

}  // namespace weft
