// stripes: which operations are cut, and where.
#include "engine/context/stripes.h"

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

// The elements of the operation. Only the root of a reduce has an output, and a rank that is not
// the root of a broadcast may have no input.
std::size_t elements_of(const Call& call) {
  return call.collective == Collective::broadcast ? call.output_count : call.input_count;
}

}  // namespace

bool is_cut(Collective collective) {
  switch (collective) {
    case Collective::neighbor_allreduce:
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::hierarchical_neighbor_allreduce:
    case Collective::local_allreduce:
      return true;
    default:
      return false;
  }
}

std::size_t stripes_of(const Call& call, std::size_t lanes) {
  if (!is_cut(call.collective)) return 1;
  return std::clamp<std::size_t>(elements_of(call) * size_of(call.type) / kLeastStripeBytes, 1,
                                 lanes);
}

Range stripe_range(std::size_t elements, std::size_t grain, std::span<const std::uint32_t> speeds,
                   std::size_t stripe) {
  const auto sum = [&speeds](std::size_t count) {
    return std::accumulate(speeds.begin(), speeds.begin() + static_cast<std::ptrdiff_t>(count),
                           std::uint64_t{0});
  };
  const auto end = [&](std::size_t count) {
    if (count == speeds.size()) return elements;
    const double share = static_cast<double>(sum(count)) / static_cast<double>(sum(speeds.size()));
    const auto grains = static_cast<double>(elements / grain);
    return static_cast<std::size_t>(share * grains) * grain;
  };
  const std::size_t begin = end(stripe);
  return {begin, end(stripe + 1) - begin};
}

void narrow(Invocation& invocation, std::span<const std::uint32_t> speeds, std::size_t stripe) {
  Call& call = invocation.call;
  const std::size_t element = size_of(call.type);
  const Range range =
      stripe_range(elements_of(call), std::max<std::size_t>(64 / element, 1), speeds, stripe);
  if (call.input != nullptr)
    call.input = static_cast<const std::byte*>(call.input) + range.offset * element;
  if (call.output != nullptr)
    call.output = static_cast<std::byte*>(call.output) + range.offset * element;
  if (call.input_count != 0) call.input_count = range.count;
  if (call.output_count != 0) call.output_count = range.count;
}

Invocation stripe_of(const Invocation& whole, std::span<const std::uint32_t> speeds,
                     std::size_t stripe) {
  Invocation part;
  part.plan = whole.plan;
  part.trace_name = whole.trace_name;
  part.call = whole.call;
  part.in.assign(whole.call.in.begin(), whole.call.in.end());
  part.out.assign(whole.call.out.begin(), whole.call.out.end());
  part.receive_weights.assign(whole.call.receive_weights.begin(), whole.call.receive_weights.end());
  part.send_weights.assign(whole.call.send_weights.begin(), whole.call.send_weights.end());
  part.call.in = part.in;
  part.call.out = part.out;
  part.call.receive_weights = part.receive_weights;
  part.call.send_weights = part.send_weights;
  narrow(part, speeds, stripe);
  return part;
}

}  // namespace weft
