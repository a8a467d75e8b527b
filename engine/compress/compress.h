// compress: f32 tensors in fewer bytes. A tensor is encoded as one message, and each receiver decodes it,
// or adds it times a weight to what it has.
//
//   f16, bf16   2 bytes an element: rounded to nearest, ties to even.
//   sketch      1 byte an element and a table of 1 KiB (Canary, section 4.3.1, "gradient sketch"): values
//               in order are cut into at most 253 buckets that hold about equally many, and an
//               element travels as the number of its bucket.
//
// What a sketch promises:
// - An element is decoded as the mean of its bucket. A bucket of one value, such as the zeros of a sparse
//   gradient, is decoded exactly. NaN, +infinity and -infinity are decoded as what they are.
// - Rank error: between an element and what it is decoded as lie at most 1.2% of all elements (3/253); or
//   the two differ by at most 2^-7 of the element's distance from the center of the values. The center is
//   0, or the mean of values that lie far from 0 and close together. Tensors of more than 65,536
//   elements are cut by a sample of 32,768 of them. At most 3.4% lie in between then, with a
//   probability of 99.9% (Dvoretzky, Kiefer and Wolfowitz: 2 exp(-2 m e^2) for m samples and an
//   error of e at either end).
// - Values beyond the sampled ones get the value of the first or the last bucket. Sums of gradients bear
//   that if what is lost is added to the next one (ErrorFeedback). Tensors where the largest values
//   matter most are better sent as f16.
//
// Encoding depends on the values alone, so equal tensors have equal bytes, on every machine of the same byte
// order. Encoded tensors have an exact size, a version and their count, which open() compares.
// Nothing is allocated but by an Encoder's constructor and by the first use of an ErrorFeedback.
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// The exact size of `count` encoded elements.
[[nodiscard]] std::size_t encoded_bytes(Compression compression, std::size_t count);

// Encodes; holds about 330 KiB of scratch for sketches. One thread at a time.
class Encoder {
 public:
  Encoder();
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // `into` has encoded_bytes() bytes, at any address.
  void encode(Compression compression, std::span<const float> values, std::span<std::byte> into);

 private:
  struct Cut;
  void sketch(std::span<const float> values, std::byte* table, std::byte* codes);

  std::unique_ptr<Cut> cut_;
};

// An encoded tensor that has been checked. It points to the bytes, which must stay.
class Encoded {
 public:
  // `mismatch`, which names what differs, if the bytes are not `count` elements in this compression:
  // cut short, too long, of another version, or of a peer that compresses in another way.
  [[nodiscard]] static Result<Encoded> open(std::span<const std::byte> bytes,
                                            Compression compression, std::size_t count);
  // to[i] = value i.
  void decode(std::span<float> to) const;
  // to[i] += weight * value i.
  void add(float weight, std::span<float> to) const;

 private:
  Encoded(Compression compression, std::span<const std::byte> body)
      : compression_(compression), body_(body) {}

  Compression compression_;
  std::span<const std::byte> body_;  // without the header
};

// Error feedback (Seide et al. 2014): what compression takes from one gradient is added to the next
// one. One object for each tensor; after encode() the residual is what the receivers did not get.
// A residual that is not finite is dropped, so that one NaN does not stay for ever.
class ErrorFeedback {
 public:
  // All calls have the same number of values.
  void encode(Encoder& encoder, Compression compression, std::span<const float> values,
              std::span<std::byte> into);
  [[nodiscard]] std::span<const float> residual() const { return residual_; }

 private:
  std::vector<float> residual_;
};

}  // namespace weft
