// codec: see the header.
#include "scheduler/negotiate/codec.h"

#include <cstring>
#include <utility>

namespace weft::negotiate {
namespace {

constexpr std::uint64_t kMostCount = std::uint64_t{1} << 60;
constexpr int kLeastPriority = -(1 << 30);

}  // namespace

Writer& Writer::number(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
  bytes_.push_back(static_cast<std::byte>(value));
  return *this;
}

std::byte* Writer::room(std::size_t bytes) {
  bytes_.resize(bytes_.size() + bytes);
  return bytes_.data() + bytes_.size() - bytes;
}

Writer& Writer::bytes(std::span<const std::byte> value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

Writer& Writer::text(std::string_view value) {
  return number(value.size()).bytes(std::as_bytes(std::span(value)));
}

Writer& Writer::request(const NamedRequest& request) {
  text(request.name);
  number(static_cast<std::uint64_t>(request.collective));
  number(static_cast<std::uint64_t>(request.op));
  number(static_cast<std::uint64_t>(request.algorithm));
  number(static_cast<std::uint64_t>(request.bits));
  number(static_cast<std::uint64_t>(request.compression));
  if (request.compression == Compression::low_rank) number(request.low_rank);
  number(static_cast<std::uint64_t>(request.root) + 1);
  number(static_cast<std::uint64_t>(request.weights));
  number(static_cast<std::uint64_t>(std::int64_t{request.priority} - kLeastPriority));
  number(request.tensors.size());
  for (const NamedTensor& tensor : request.tensors) {
    number(static_cast<std::uint64_t>(tensor.type)).number(tensor.count).shape(tensor.shape);
    number(tensor.parts);
  }
  return *this;
}

// Extents travel with 1 added, so that kAnyExtent is 0.
Writer& Writer::shape(std::span<const std::size_t> shape) {
  number(shape.size());
  for (const std::size_t extent : shape) number(extent + 1);
  return *this;
}

std::uint64_t Reader::number(std::uint64_t most) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) break;
    const auto byte = std::to_integer<std::uint64_t>(rest_.front());
    rest_ = rest_.subspan(1);
    value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) != 0) continue;
    if (value > most || is_broken_) break;
    return value;
  }
  is_broken_ = true;
  return 0;
}

std::span<const std::byte> Reader::bytes(std::size_t count) {
  if (is_broken_ || count > rest_.size()) {
    is_broken_ = true;
    return {};
  }
  const auto found = rest_.first(count);
  rest_ = rest_.subspan(count);
  return found;
}

std::string Reader::text(std::size_t most_bytes) {
  const auto found = bytes(number(most_bytes));
  return {reinterpret_cast<const char*>(found.data()), found.size()};
}

Code Reader::code() {
  const std::uint64_t code = number(static_cast<std::uint64_t>(kLastCode));
  if (code == static_cast<std::uint64_t>(Code::ok)) is_broken_ = true;
  return is_broken_ ? Code::mismatch : static_cast<Code>(code);
}

std::size_t Reader::length(std::size_t least_bytes) {
  return number(rest_.size() / least_bytes);
}

NamedRequest Reader::request(int ranks) {
  NamedRequest request;
  request.name = text(kMostNameBytes);
  request.collective = static_cast<Collective>(number(kCollectives));
  request.op = static_cast<ReduceOp>(number(static_cast<std::uint64_t>(ReduceOp::bit_xor)));
  request.algorithm =
      static_cast<AllreduceAlgorithm>(number(static_cast<std::uint64_t>(AllreduceAlgorithm::nccl)));
  request.bits = static_cast<weft::Bits>(number(static_cast<std::uint64_t>(weft::Bits::fixed)));
  request.compression = static_cast<Compression>(number(kCompressions - 1));
  if (request.compression == Compression::low_rank)
    request.low_rank = static_cast<std::uint32_t>(number(~std::uint32_t{0}));
  request.root = static_cast<Rank>(number(static_cast<std::uint64_t>(ranks))) - 1;
  request.weights =
      static_cast<NamedWeights>(number(static_cast<std::uint64_t>(NamedWeights::several)));
  request.priority = static_cast<int>(static_cast<std::int64_t>(number(~0U)) + kLeastPriority);
  const std::size_t tensors = length(4);
  if (tensors > kMostTensors || static_cast<std::uint8_t>(request.collective) == 0)
    is_broken_ = true;
  for (std::size_t i = 0; i < tensors && !is_broken_; ++i) {
    NamedTensor tensor;
    tensor.type = static_cast<DataType>(number(kDataTypes - 1));
    tensor.count = number(kMostCount);
    tensor.shape = shape();
    tensor.parts = number();
    request.tensors.push_back(std::move(tensor));
  }
  return request;
}

std::vector<std::size_t> Reader::shape() {
  std::vector<std::size_t> shape(number(kMostDimensions));
  for (std::size_t& extent : shape) extent = number() - 1;
  return shape;
}

}  // namespace weft::negotiate
