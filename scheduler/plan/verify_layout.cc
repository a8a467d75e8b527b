// verify_layout: buffers after one another, the output on top of the input when in place.
#include "scheduler/plan/verify_layout.h"

#include <algorithm>

namespace weft::verifier {
namespace {

constexpr std::size_t index(Buffer buffer) {
  return static_cast<std::size_t>(buffer);
}

std::vector<std::size_t> cuts_of_gathered(const View& view, std::span<const std::size_t> inputs) {
  std::vector<std::size_t> cuts{0};
  for (const Rank peer : view.in)
    cuts.push_back(cuts.back() + inputs[static_cast<std::size_t>(peer)]);
  return cuts;
}

}  // namespace

Layout::Layout(const Planned& program, std::span<const std::size_t> inputs, Shape shape)
    : plan_(&program.plan) {
  const std::size_t own = inputs[static_cast<std::size_t>(program.view.rank)];
  std::size_t counts[kBuffers] = {own, own, 0};
  const bool is_gathered = plan_->partition_of(Buffer::output).kind == Partition::Kind::given;
  if (is_gathered) {
    given_cuts_ = cuts_of_gathered(program.view, inputs);
    counts[index(Buffer::output)] = given_cuts_.back();
  }
  counts[index(Buffer::scratch)] = counts[index(plan_->scratch_of)];

  for (const Buffer buffer : {Buffer::input, Buffer::output, Buffer::scratch}) {
    Extent& extent = buffers_[index(buffer)];
    if (buffer == Buffer::output && shape.in_place && !is_gathered) {
      extent = buffers_[index(Buffer::input)];
      continue;
    }
    const bool is_used = plan_->partition_of(buffer).kind != Partition::Kind::none;
    extent = {elements_, elements_ + (is_used ? counts[index(buffer)] : 0)};
    elements_ = extent.last;
  }
}

std::size_t Layout::cut(Buffer buffer, std::uint32_t block) const {
  const Partition& partition = plan_->partition_of(buffer);
  if (partition.kind == Partition::Kind::given) return given_cuts_[block];
  const std::size_t count = buffers_[index(buffer)].count();
  if (block == partition.blocks) return count;
  return block_range(count, 1, partition.blocks, block).offset;
}

Extent Layout::extent(const Slice& slice) const {
  if (slice.first == slice.last) return {};
  const std::size_t base = buffers_[index(slice.buffer)].first;
  return {base + cut(slice.buffer, slice.first), base + cut(slice.buffer, slice.last)};
}

Extent Layout::whole(Buffer buffer) const {
  return buffers_[index(buffer)];
}

std::vector<std::size_t> input_elements(std::span<const Planned> programs, bool inputs_differ) {
  std::size_t blocks = 1;
  for (const Planned& program : programs) {
    for (const Partition& partition : program.plan.partition) {
      if (partition.kind != Partition::Kind::even) continue;
      blocks = std::max<std::size_t>(blocks, partition.blocks);
    }
  }
  std::vector<std::size_t> elements(programs.size(), blocks + (blocks + 1) / 2);
  for (std::size_t rank = 0; inputs_differ && rank < elements.size(); ++rank) {
    elements[rank] += rank % 3;
  }
  return elements;
}

}  // namespace weft::verifier
