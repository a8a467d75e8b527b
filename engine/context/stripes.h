// stripes: cutting a large operation into parts, one for each lane. A stripe is a range of the
// elements. Each lane runs the plan of the whole operation on its stripe, so plans, messages and
// checks are the same as without lanes.
//
// Only operations that work element by element are cut: what a rank makes of element e depends on
// element e of all ranks alone. All ranks of an operation have the same number of bytes and the
// same number of lanes, and so compute the same stripes without asking each other. Internal to the
// module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/lane/lane.h"
#include "scheduler/plan/plan.h"

namespace weft {

// The fewest bytes of a stripe. Handing a part to another lane and waiting for it costs about as
// much as summing a tenth of this.
inline constexpr std::size_t kLeastStripeBytes = std::size_t{1} << 20;

// Whether the operation works element by element, and all its ranks take part.
[[nodiscard]] bool is_cut(Collective collective);
// On how many of `lanes` lanes the call runs. The same at all ranks of the operation.
[[nodiscard]] std::size_t stripes_of(const Call& call, std::size_t lanes);

// Stripe `stripe` of `elements` elements: shares in proportion to `speeds`, one for each stripe, cut
// at multiples of `grain` elements (one cache line).
[[nodiscard]] Range stripe_range(std::size_t elements, std::size_t grain,
                                 std::span<const std::uint32_t> speeds, std::size_t stripe);
// Narrows the invocation to a stripe.
void narrow(Invocation& invocation, std::span<const std::uint32_t> speeds, std::size_t stripe);
// A copy of the invocation for another lane, narrowed to a stripe. Its peers and weights lie in the
// copy; the peers are still those of the first lane.
[[nodiscard]] Invocation stripe_of(const Invocation& whole, std::span<const std::uint32_t> speeds,
                                   std::size_t stripe);

}  // namespace weft
