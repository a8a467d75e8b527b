// The allreduce algorithms behind plan_allreduce, each for two ranks or more. Internal.
// All give every rank the same bits: a block is combined in one defined order wherever it is
// combined.
#pragma once

#include <string>

#include "scheduler/plan/plan.h"

namespace weft {

// Which algorithm, and why.
struct AllreduceChoice {
  AllreduceAlgorithm algorithm;
  std::string reason;
};
[[nodiscard]] AllreduceChoice choose_allreduce(int size, std::size_t bytes, const Layout& layout);

[[nodiscard]] Planned plan_allreduce_direct(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_split(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_ring(Rank rank, int size, Shape shape, std::string reason);
[[nodiscard]] Planned plan_allreduce_halving_doubling(Rank rank, int size, Shape shape,
                                                      std::string reason);

// These add to the reason how they make use of the layout, which must be one that their checks
// allow.
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
