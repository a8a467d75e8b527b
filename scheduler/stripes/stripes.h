// stripes: how a large operation is cut over the lanes of a rank, which are threads with interfaces
// of their own. A stripe is a range of the elements. Each lane runs the plan of the whole operation
// on its stripe, so plans and messages are the same as on one lane.
//
// Cut are operations that work element by element: what a rank makes of element e depends on element
// e of all ranks alone. All ranks of such an operation have the same number of bytes and the same
// number of lanes, and so compute the same stripes without asking each other. So do the two ends of
// each block of a gather, which a rank gives to the root.
//
// Pure functions, which any thread may call. The engine and the simulator use the same ones.
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "scheduler/plan/plan.h"

namespace weft {

// The most lanes of a rank.
inline constexpr int kMostLanes = 64;
// The fewest bytes of a stripe. Handing a part to another lane and waiting for it costs about as
// much as summing a tenth of this.
inline constexpr std::size_t kLeastStripeBytes = std::size_t{1} << 20;

// How many lanes a rank has if nobody says how many: half of its cores, because callers compute
// beside the lanes, and at most as many as it has near interfaces, or four if it has fewer, because
// one lane sums more slowly than a fast interface receives. `cores`: those that `ranks` ranks share.
[[nodiscard]] int automatic_lanes(int near_interfaces, int ranks, int cores);

// Whether the operation, or that of a plan (Plan::operation), is cut.
[[nodiscard]] bool is_cut(Collective collective);
[[nodiscard]] bool is_cut(std::string_view operation);
// Into how many stripes an operation, or a block of a gather, of so many bytes is cut.
[[nodiscard]] std::size_t stripes_of(std::size_t bytes, std::size_t lanes);

// Stripe `stripe` of `elements` elements: shares in proportion to `speeds`, one for each stripe,
// cut at multiples of `grain` elements (one cache line).
[[nodiscard]] Range stripe_range(std::size_t elements, std::size_t grain,
                                 std::span<const std::uint32_t> speeds, std::size_t stripe);

// Which of `rails` rails a stripe of so many bytes prefers, from 0; kAnyRail: none. A small stripe
// of a few pieces is best sent over one rail, so that each rail has the same number of pieces. Every
// rail gets equally many stripes; those left over prefer none. Larger stripes take all rails by what
// each carries: a lane cannot tell a slow rail from one that another lane uses.
[[nodiscard]] int preferred_rail(std::size_t bytes, std::size_t rails, std::size_t stripe,
                                 std::size_t stripes);

}  // namespace weft
