// verify_layout: buffers after one another, input and output on top of each other when in place.
#include "scheduler/verify/layout.h"

namespace weft::verifier {
namespace {

constexpr std::size_t index(Buffer buffer) {
  return static_cast<std::size_t>(buffer);
}

}  // namespace

Layout::Layout(const Planned& program, const Sizes& sizes, Shape shape)
    : plan_(&program.plan), sizes_(&sizes) {
  for (const Buffer buffer : {Buffer::input, Buffer::output, Buffer::scratch}) {
    const bool is_used = plan_->partition_of(buffer).kind != Partition::Kind::none;
    const Buffer like = buffer == Buffer::scratch ? plan_->scratch_of : buffer;
    buffers_[index(buffer)] = {elements_, elements_ + (is_used ? sizes.of(like) : 0)};
    elements_ = buffers_[index(buffer)].last;
  }
  Extent& input = buffers_[index(Buffer::input)];
  Extent& output = buffers_[index(Buffer::output)];
  if (!shape.in_place || !sizes.may_be_in_place) return;
  // The smaller one moves to its block of the larger; what it leaves is never used.
  Extent& smaller = output.count() <= input.count() ? output : input;
  const Extent& larger = output.count() <= input.count() ? input : output;
  const std::size_t first = larger.first + sizes.own_offset;
  smaller = {first, first + smaller.count()};
}

std::size_t Layout::cut(Buffer buffer, std::uint32_t block) const {
  const Partition& partition = plan_->partition_of(buffer);
  if (partition.kind == Partition::Kind::given) {
    return sizes_->cuts(buffer == Buffer::scratch ? plan_->scratch_of : buffer)[block];
  }
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

}  // namespace weft::verifier
