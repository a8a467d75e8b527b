// cutting: an operation's invocation narrowed to a stripe (scheduler/stripes), for the lane that runs
// it. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/lane/lane.h"
#include "scheduler/stripes/stripes.h"

namespace weft {

// The bytes of an operation that is cut. The same at all its ranks.
[[nodiscard]] std::size_t bytes_of(const Call& call);
// On how many of `lanes` lanes the call runs.
[[nodiscard]] std::size_t stripes_of(const Call& call, std::size_t lanes);
// Narrows the invocation to a stripe.
void narrow(Invocation& invocation, std::span<const std::uint32_t> speeds, std::size_t stripe);
// A copy of the invocation for another lane, narrowed to a stripe. Its peers and weights lie in the
// copy; the peers are still those of the first lane.
[[nodiscard]] Invocation stripe_of(const Invocation& whole, std::span<const std::uint32_t> speeds,
                                   std::size_t stripe);

}  // namespace weft
