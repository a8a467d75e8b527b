// cutting: an operation's bound call narrowed to a stripe (scheduler/stripes), for the lane that runs
// it. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/lane/lane.h"
#include "scheduler/stripes/stripes.h"

namespace weft {

// On how many of `lanes` lanes the call runs at this rank: as many as its largest block is cut into.
[[nodiscard]] std::size_t stripes_of(const Call& call, std::size_t lanes);
// The bytes that this rank has in the stripe that the call was narrowed to.
[[nodiscard]] std::size_t bytes_of(const Call& call);

// A block of an operation is what two ranks compute or exchange as a whole: all elements of an
// operation by element, and what one rank gives to a gather. Each block is cut by its own size, so
// that its two ends agree whatever other blocks there are.
class Cut {
 public:
  // `rates`: Machines::rail_rates.
  Cut(std::size_t lanes, std::span<const std::uint32_t> rates) : lanes_(lanes), rates_(rates) {}

  // Narrows the bound call to its parts on lane `lane`.
  void narrow(BoundCall& bound_call, std::size_t lane) const;
  // A copy of the bound call for another lane, narrowed. Its peers and weights lie in the copy; the
  // peers are still those of the first lane.
  [[nodiscard]] BoundCall part_of(const BoundCall& whole, std::size_t lane) const;

 private:
  [[nodiscard]] std::size_t stripes(std::size_t bytes) const { return stripes_of(bytes, lanes_); }
  [[nodiscard]] Range range(std::size_t elements, std::size_t element, std::size_t lane) const;
  [[nodiscard]] std::vector<std::uint32_t> speeds(std::size_t stripes) const;
  void narrow_gather(BoundCall& bound_call, std::size_t lane) const;

  std::size_t lanes_;
  std::span<const std::uint32_t> rates_;
};

}  // namespace weft
