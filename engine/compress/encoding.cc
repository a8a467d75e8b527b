// encoding: what a tensor travels as.
#include <fmt/core.h>

#include <array>
#include <atomic>

#include "engine/compress/compress.h"
#include "engine/compress/low_rank.h"
#include "engine/compress/sketch.h"

namespace weft {
namespace {

struct Counters {
  std::atomic<std::uint64_t> tensors, bytes;
};
std::array<Counters, kCompressions> counters;

}  // namespace

EncodedCounts encoded_counts(Compression form) {
  const Counters& found = counters[static_cast<std::size_t>(form)];
  return {found.tensors.load(std::memory_order_relaxed),
          found.bytes.load(std::memory_order_relaxed)};
}

void count_encoded(Compression form, std::size_t bytes) {
  Counters& found = counters[static_cast<std::size_t>(form)];
  found.tensors.fetch_add(1, std::memory_order_relaxed);
  found.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

Encoding::Encoding(const Request& request) : Encoding(request.compression, request.low_rank) {
  if (compression == Compression::low_rank && low_rank.rows == 0 && !request.shape.empty())
    low_rank.rows = request.shape.front();
}

Compression Encoding::form(std::size_t count) const {
  if (compression != Compression::low_rank) return compression;
  const std::size_t factors = low_rank::body_bytes(low_rank::Shape::of(*this, count));
  return factors < kSketchTable + count ? Compression::low_rank : Compression::sketch;
}

std::size_t Encoding::unit(std::size_t count) const {
  if (compression != Compression::low_rank || count == 0) return 1;
  return count / low_rank.rows;
}

Encoding Encoding::of_part(std::size_t count, std::size_t part) const {
  Encoding made = *this;
  if (compression == Compression::low_rank) made.low_rank.rows = part / unit(count);
  return made;
}

Status Encoding::check(std::string_view what, std::size_t count) const {
  if (compression != Compression::low_rank) return {};
  const auto wrong = [what](std::string why) {
    return Status(Code::invalid_argument, fmt::format("{}: {}", what, why));
  };
  if (low_rank.rank == 0) return wrong("low_rank has a rank of 0; it needs 1 at least");
  if (count == 0) return {};
  if (low_rank.rows == 0)
    return wrong("low_rank takes a matrix: it needs the number of rows, or the tensor's shape");
  if (count % low_rank.rows == 0) return {};
  return wrong(fmt::format("{} elements are no matrix of {} rows", count, low_rank.rows));
}

}  // namespace weft
