// compress: headers, the narrow types, what is common.
#include "engine/compress/compress.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/compress/low_rank.h"
#include "engine/compress/sketch.h"
#include "engine/half/half.h"
#include "engine/kernels/kernels.h"

namespace weft {
namespace {

constexpr std::uint32_t kMagic = 0x504D4357;  // "WCMP" in little-endian order
constexpr std::uint8_t kVersion = 1;

struct Header {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t compression;
  std::uint16_t zero;
  std::uint64_t count;
};
static_assert(sizeof(Header) == 16);

std::size_t body_bytes(Compression compression, std::size_t count) {
  switch (compression) {
    case Compression::none:
      return count * sizeof(float);
    case Compression::f16:
    case Compression::bf16:
      return count * sizeof(std::uint16_t);
    case Compression::sketch:
      return kSketchTable + count;
    case Compression::e4m3:
    case Compression::e5m2:
      return sizeof(float) + count;
    case Compression::low_rank:
      break;
  }
  return 0;
}
std::size_t body_bytes(const Encoding& encoding, Compression form, std::size_t count) {
  return form == Compression::low_rank ? low_rank::body_bytes(low_rank::Shape::of(encoding, count))
                                       : body_bytes(form, count);
}

// Narrow types are widened so many elements at a time.
constexpr std::size_t kWidened = 1024;

template <class Take>
void each_narrow(DataType type, const std::byte* body, float scale, std::size_t count, Take take) {
  std::array<float, kWidened> values;
  for (std::size_t begin = 0; begin < count; begin += kWidened) {
    const std::size_t here = std::min(kWidened, count - begin);
    widen(type, body + begin * size_of(type), std::span(values).first(here), scale);
    for (std::size_t i = 0; i < here; ++i) take(begin + i, values[i]);
  }
}

// The body of an 8-bit type: what its elements are multiplied by, and the elements.
struct Scaled {
  DataType type;
  int largest_exponent;  // of its largest number, which is 1.75 times a power of two
};
constexpr Scaled kE4m3{DataType::e4m3, 8}, kE5m2{DataType::e5m2, 15};

template <class Take>
void each_scaled(Scaled form, const std::byte* body, std::size_t count, Take take) {
  float scale = 0;
  std::memcpy(&scale, body, sizeof scale);
  each_narrow(form.type, body + sizeof scale, scale, count, take);
}

// The scale is a power of two, so that numbers which the type has stay exact. Its exponent is such that the
// scale and its inverse are normal numbers.
void encode_scaled(Scaled form, std::span<const float> values, std::byte* body) {
  constexpr float kLargest = 1.75F;
  constexpr int kMostExponent = 126;
  int exponent = 0;
  const float largest = largest_finite(values);
  const float mantissa = 2 * std::frexp(largest, &exponent);
  exponent += (mantissa > kLargest ? 0 : -1) - form.largest_exponent;
  exponent = largest == 0 ? 0 : std::max(exponent, -kMostExponent);
  const float scale = std::ldexp(1.0F, exponent);
  std::memcpy(body, &scale, sizeof scale);
  narrow(form.type, values, body + sizeof scale, 1 / scale);
}

template <class Raw, class Widen, class Take>
void each(const std::byte* body, std::size_t count, Widen widen, Take take) {
  for (std::size_t i = 0; i < count; ++i) {
    Raw raw;
    std::memcpy(&raw, body + i * sizeof raw, sizeof raw);
    take(i, widen(raw));
  }
}

// Calls take(i, value i) for each element.
template <class Take>
void each_value(Compression compression, const std::byte* body, std::size_t count, Take take) {
  switch (compression) {
    case Compression::none:
      return each<float>(
          body, count, [](float value) { return value; }, take);
    case Compression::f16:
      return each_narrow(DataType::f16, body, 1, count, take);
    case Compression::bf16:
      return each<std::uint16_t>(body, count, f32_from_bf16, take);
    case Compression::sketch: {
      std::array<float, kSketchCodes> table;
      std::memcpy(table.data(), body, kSketchTable);
      for (std::size_t i = 0; i < count; ++i)
        take(i, table[std::to_integer<std::size_t>(body[kSketchTable + i])]);
      return;
    }
    case Compression::e4m3:
      return each_scaled(kE4m3, body, count, take);
    case Compression::e5m2:
      return each_scaled(kE5m2, body, count, take);
    case Compression::low_rank:
      return;
  }
}

void encode_bf16(std::span<const float> values, std::byte* body) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = bf16_from_f32(values[i]);
    std::memcpy(body + i * sizeof half, &half, sizeof half);
  }
}

}  // namespace

std::size_t encoded_bytes(const Encoding& encoding, std::size_t count) {
  return sizeof(Header) + body_bytes(encoding, encoding.form(count), count);
}

void Encoder::encode(const Encoding& encoding, std::span<const float> values,
                     std::span<std::byte> into) {
  invariant(into.size() == encoded_bytes(encoding, values.size()),
            "encoded tensors have an exact size");
  const Compression form = encoding.form(values.size());
  count_encoded(form, into.size());
  const Header header{kMagic, kVersion, static_cast<std::uint8_t>(form), 0, values.size()};
  std::memcpy(into.data(), &header, sizeof header);
  std::byte* const body = into.data() + sizeof header;
  switch (form) {
    case Compression::none:
      if (!values.empty()) std::memcpy(body, values.data(), values.size_bytes());
      return;
    case Compression::f16:
      return narrow(DataType::f16, values, body);
    case Compression::bf16:
      return encode_bf16(values, body);
    case Compression::sketch:
      return sketch(values, body, body + kSketchTable);
    case Compression::e4m3:
      return encode_scaled(kE4m3, values, body);
    case Compression::e5m2:
      return encode_scaled(kE5m2, values, body);
    case Compression::low_rank:
      invariant(encoding.check("", values.size()).ok(), "a matrix has whole rows");
      return low_rank::encode(values, low_rank::Shape::of(encoding, values.size()), body);
  }
}

Result<Encoded> Encoded::open(std::span<const std::byte> bytes, const Encoding& encoding,
                              std::size_t count) {
  const Compression form = encoding.form(count);
  const auto wrong = [](std::string what) { return Status(Code::mismatch, std::move(what)); };
  Header header;
  if (bytes.size() < sizeof header) {
    return wrong(fmt::format("an encoded tensor of {} bytes is cut short: its header alone has {}",
                             bytes.size(), sizeof header));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return wrong("these bytes are not an encoded tensor");
  if (header.version != kVersion) {
    return wrong(
        fmt::format("an encoded tensor has version {}, and this is {}: another version of Weft?",
                    header.version, kVersion));
  }
  if (header.compression != static_cast<std::uint8_t>(form)) {
    return wrong(fmt::format("a tensor is encoded as {}, and this rank uses {}",
                             header.compression >= kCompressions
                                 ? fmt::format("compression {}", header.compression)
                                 : std::string(name(static_cast<Compression>(header.compression))),
                             name(form)));
  }
  if (header.count != count) {
    return wrong(
        fmt::format("an encoded tensor has {} elements, and this one {}", header.count, count));
  }
  if (bytes.size() != encoded_bytes(encoding, count)) {
    return wrong(fmt::format("an encoded tensor of {} elements has {} bytes instead of {}", count,
                             bytes.size(), encoded_bytes(encoding, count)));
  }
  const std::span<const std::byte> body = bytes.subspan(sizeof header);
  if (form == Compression::low_rank)
    WEFT_RETURN_IF_ERROR(low_rank::check(body, low_rank::Shape::of(encoding, count)));
  return Encoded(encoding, form, body);
}

void Encoded::decode(std::span<float> to) const {
  if (form_ == Compression::low_rank) {
    const auto shape = low_rank::Shape::of(encoding_, to.size());
    return low_rank::add(body_.data(), shape, 1, false, to);
  }
  each_value(form_, body_.data(), to.size(), [to](std::size_t i, float value) { to[i] = value; });
}

void Encoded::add(float weight, std::span<float> to) const {
  if (form_ == Compression::low_rank) {
    const auto shape = low_rank::Shape::of(encoding_, to.size());
    return low_rank::add(body_.data(), shape, weight, true, to);
  }
  each_value(form_, body_.data(), to.size(),
             [to, weight](std::size_t i, float value) { to[i] += weight * value; });
}

Status from_rank(Rank rank, const Status& status) {
  return Status(status.code(), fmt::format("rank {}: {}", rank, status.text()), rank);
}

Status combine_encoded(const Encoding& encoding, std::span<Term> terms, std::span<const Rank> ranks,
                       std::span<float> y) {
  const double divisor = take_divisor(terms);
  const std::span<const float> x(static_cast<const float*>(terms.front().data), y.size());
  const auto own = static_cast<float>(terms.front().weight);
  std::ranges::transform(x, y.begin(), [own](float value) { return own * value; });
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Term& term = terms[i + 1];
    if (term.data == nullptr) continue;
    const Result<Encoded> encoded =
        Encoded::open({static_cast<const std::byte*>(term.data), encoded_bytes(encoding, y.size())},
                      encoding, y.size());
    if (!encoded.ok()) return from_rank(ranks[i], encoded.status());
    encoded->add(static_cast<float>(term.weight), y);
  }
  if (divisor != 1.0) {
    for (float& value : y) value = static_cast<float>(value / divisor);
  }
  return {};
}

void drop_what_is_not_finite(std::span<float> values) {
  for (float& value : values) value = std::isfinite(value) ? value : 0.0F;
}

void Encoder::encode(const Encoding& encoding, std::span<const float> values,
                     std::span<std::byte> into, std::span<float> residual) {
  if (residual.empty()) return encode(encoding, values, into);
  for (std::size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
  encode(encoding, residual, into);
  const Result<Encoded> sent = Encoded::open(into, encoding, values.size());
  sent->add(-1.0F, residual);
  drop_what_is_not_finite(residual);
}

}  // namespace weft
