// pieces: see the header.
#include "engine/algorithms/pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/algorithms/own_window.h"
#include "engine/context/context.h"

namespace weft {
namespace {

// The bytes of 1 in a floating type, the lowest first.
std::array<std::uint8_t, 8> one_of(DataType type) {
  switch (type) {
    case DataType::f16:
      return {0x00, 0x3C};
    case DataType::bf16:
      return {0x80, 0x3F};
    case DataType::e4m3:
      return {0x38};
    case DataType::e5m2:
      return {0x3C};
    case DataType::f64:
      return {0, 0, 0, 0, 0, 0, 0xF0, 0x3F};
    default:
      return {0, 0, 0x80, 0x3F};
  }
}

}  // namespace

Pieces::Pieces(std::size_t count, DataType type, Rank self, int ranks)
    : count_(count), type_(type), self_(self), ranks_(static_cast<std::size_t>(ranks)) {}

Result<Pieces> Pieces::create(Context& context, std::size_t count, DataType type,
                              const std::string& name) {
  Pieces made(count, type, context.rank(), context.size());
  const std::size_t elements = count + made.ranks_;
  WEFT_ASSIGN(made.sum_, Memory::allocate(elements * size_of(type)));
  WEFT_ASSIGN(made.window_, own_window(context, elements, type, name));
  const std::size_t own = static_cast<std::size_t>(made.self_) * size_of(type);
  std::memcpy(made.marks(made.window_.tensor().data) + own, one_of(type).data(), size_of(type));
  return made;
}

std::byte* Pieces::marks(void* tensor) const {
  return static_cast<std::byte*>(tensor) + count_ * size_of(type_);
}

Status Pieces::push(const void* gradient, std::span<const NeighborWeight> to, bool replaces) {
  std::memcpy(window_.tensor().data, gradient, count_ * size_of(type_));
  is_pushed_ = true;
  if (to.empty()) return {};
  const WindowPut how{.destinations = to};
  WEFT_ASSIGN(sending_, replaces ? window_.put_start(window_.tensor(), how)
                                 : window_.accumulate_start(window_.tensor(), how));
  return {};
}

Status Pieces::settle() {
  if (sending_.is_empty()) return {};
  return std::exchange(sending_, Handle()).wait();
}

Result<Pieces::Taken> Pieces::take() {
  std::vector<NeighborWeight> sources;
  for (const Rank rank : window_.in_neighbors()) sources.push_back({rank, 1.0});
  const Output sum{sum_.data(), count_ + ranks_, type_};
  WEFT_RETURN_IF_ERROR(window_.update({.self_weight = is_pushed_ ? 1.0 : 0.0,
                                       .sources = std::span(std::as_const(sources)),
                                       .reset = true,
                                       .clone = sum}));
  is_pushed_ = false;
  Taken taken{.sum = sum_.data()};
  const std::size_t bytes = size_of(type_);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const std::byte* mark = marks(sum_.data()) + rank * bytes;
    const bool is_set =
        std::any_of(mark, mark + bytes, [](std::byte each) { return each != std::byte{0}; });
    taken.contributors += is_set ? 1 : 0;
  }
  return taken;
}

}  // namespace weft
