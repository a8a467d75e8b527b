// cutting: see the header.
#include "engine/context/cutting.h"

#include <algorithm>
#include <memory>

namespace weft {
namespace {

// The elements of the rank's block. Only the root of a reduce has an output, and a rank that is not
// the root of a broadcast may have no input.
std::size_t elements_in(const Call& call) {
  return call.collective == Collective::broadcast ? call.output_count : call.input_count;
}

// Leaves out of the plan of a gather's root the combines of blocks that have no part on this lane,
// and their senders, which do not use the lane. Each step of the plan is the combine of one block
// from one place. `has_part`: by block.
void leave_out(BoundCall& bound_call, const std::vector<bool>& has_part) {
  auto plan = std::make_unique<Plan>(*bound_call.plan);
  std::erase_if(plan->steps, [&](const Step& step) { return !has_part[step.slice.first]; });
  std::vector<std::uint32_t> edges;
  const auto each_message = [&plan](const auto& use) {
    for (const Step& step : plan->steps) {
      Operand& from = plan->operands[step.first];
      if (from.kind == Operand::Kind::message) use(from.edge);
    }
  };
  each_message([&](std::uint32_t edge) { edges.push_back(edge); });
  std::ranges::sort(edges);
  each_message([&](std::uint32_t& edge) {
    edge = static_cast<std::uint32_t>(std::ranges::lower_bound(edges, edge) - edges.begin());
  });
  std::vector<PeerConnection*> senders;
  for (const std::uint32_t edge : edges) senders.push_back(bound_call.in[edge]);
  plan->in_degree = static_cast<std::uint32_t>(senders.size());
  bound_call.in = std::move(senders);
  bound_call.call.in = bound_call.in;
  bound_call.own_plan = std::move(plan);
  bound_call.plan = bound_call.own_plan.get();
}

}  // namespace

std::size_t bytes_of(const Call& call) {
  return elements_in(call) * size_of(call.type);
}

std::size_t stripes_of(const Call& call, std::size_t lanes) {
  if (!is_cut(call.collective) || call.is_encoded) return 1;
  std::size_t most = elements_in(call);
  if (call.collective == Collective::gather) {
    for (const Range& block : call.given) most = std::max(most, block.count);
  }
  return stripes_of(most * size_of(call.type), lanes);
}

// The shares of the stripes: by the rates of the rails, if every rail has equally many stripes.
std::vector<std::uint32_t> Cut::speeds(std::size_t stripes) const {
  std::vector<std::uint32_t> speeds(stripes, 1);
  if (rates_.empty() || stripes % rates_.size() != 0) return speeds;
  for (std::size_t stripe = 0; stripe < stripes; ++stripe)
    speeds[stripe] = rates_[stripe % rates_.size()];
  return speeds;
}

// The part of a block on a lane; empty if the block is cut into fewer stripes.
Range Cut::range(std::size_t elements, std::size_t element, std::size_t lane) const {
  const std::size_t count = stripes(elements * element);
  if (lane >= count) return {elements, 0};
  return stripe_range(elements, std::max<std::size_t>(64 / element, 1), speeds(count), lane);
}

void Cut::narrow(BoundCall& bound_call, std::size_t lane) const {
  Call& call = bound_call.call;
  const std::size_t element = size_of(call.type);
  if (call.collective == Collective::gather) return narrow_gather(bound_call, lane);
  const Range part = range(elements_in(call), element, lane);
  call.input = call.input.behind(part.offset * element);
  call.output = call.output.behind(part.offset * element);
  if (call.input_count != 0) call.input_count = part.count;
  if (call.output_count != 0) call.output_count = part.count;
}

// The blocks lie where they did in the root's output, and are shorter.
void Cut::narrow_gather(BoundCall& bound_call, std::size_t lane) const {
  Call& call = bound_call.call;
  const std::size_t element = size_of(call.type);
  const Range own = range(call.input_count, element, lane);
  call.input = call.input.behind(own.offset * element);
  call.input_count = own.count;
  std::vector<Range> blocks(call.given.begin(), call.given.end());
  std::vector<bool> has_part;
  for (Range& block : blocks) {
    has_part.push_back(lane < stripes(block.count * element));
    const Range part = range(block.count, element, lane);
    block = {block.offset + part.offset, part.count};
  }
  bound_call.given = std::move(blocks);
  call.given = bound_call.given;
  // On the first lane every block has a part.
  if (std::ranges::find(has_part, false) != has_part.end()) leave_out(bound_call, has_part);
}

BoundCall Cut::part_of(const BoundCall& whole, std::size_t lane) const {
  BoundCall part;
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
  narrow(part, lane);
  return part;
}

}  // namespace weft
