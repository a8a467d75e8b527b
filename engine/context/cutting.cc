// cutting: see the header.
#include "engine/context/cutting.h"

#include <algorithm>

namespace weft {
namespace {

// The elements of the operation. Only the root of a reduce has an output, and a rank that is not
// the root of a broadcast may have no input.
std::size_t elements_of(const Call& call) {
  return call.collective == Collective::broadcast ? call.output_count : call.input_count;
}

}  // namespace

std::size_t bytes_of(const Call& call) {
  return elements_of(call) * size_of(call.type);
}

std::size_t stripes_of(const Call& call, std::size_t lanes) {
  return is_cut(call.collective) ? stripes_of(bytes_of(call), lanes) : 1;
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
