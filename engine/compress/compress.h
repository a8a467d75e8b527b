// compress: f32 tensors in fewer bytes. A tensor is encoded as one message, and each receiver decodes it,
// or adds it times a weight to what it has.
//
//   f16, bf16   2 bytes an element: rounded to nearest, ties to even.
//   e4m3, e5m2  1 byte an element and 4 bytes: the same after a division by a power of two, the smallest one
//               with which the largest finite element has a value in that type. NaN stays NaN. Infinity
//               stays what it is in e5m2, and is NaN in e4m3, which has none.
//   low_rank    a matrix as U diag(s) V^T with few columns: f16 for U and V, f32 for s. If that would not be
//               smaller than the sketch, the sketch travels, and the header says so.
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
//   that if what is lost is added to the next one (weft/feedback.h). Tensors where the largest values
//   matter most are better sent as f16.
//
// What low rank promises, for a matrix A of which k singular values are kept:
// - A matrix of rank k or less comes back to within 2^-9 sqrt(k) of its Frobenius norm. Of any other matrix
//   the best approximation of rank k leaves e; here 2 e are left at most, nearly always less than 1.1 e.
// - One NaN or infinity makes all elements NaN.
//
// Encoding depends on the values alone, so equal tensors have equal bytes, on every machine of the same byte
// order; of low rank, on every machine with the same processor. Encoded tensors have an exact size, a version and their count, which open() compares.
// Nothing is allocated but by an Encoder's first sketch, by the first use of a residual, and for low rank.
#pragma once

#include <weft/feedback.h>
#include <weft/memory.h>
#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "engine/kernels/kernels.h"
#include "verbs/base/base.h"

namespace weft {

// How a tensor is encoded. A compression alone is one, except low_rank.
struct Encoding {
  Encoding(Compression how) : compression(how) {}
  Encoding(Compression how, const LowRank& matrix)
      : compression(how), low_rank(how == Compression::low_rank ? matrix : LowRank{}) {}
  // That of a request. The rows of a matrix are the first extent of its shape, unless they are given.
  explicit Encoding(const Request& request);

  // As what a tensor of so many elements travels: of low rank, as what is smaller, that or a sketch.
  [[nodiscard]] Compression form(std::size_t count) const;
  // What cannot be cut between elements: a row of a matrix, else one element.
  [[nodiscard]] std::size_t unit(std::size_t count) const;
  // That of a part of the tensor, which is a number of units.
  [[nodiscard]] Encoding of_part(std::size_t count, std::size_t part) const;
  // invalid_argument: a tensor of so many elements is no matrix like this.
  [[nodiscard]] Status check(std::string_view what, std::size_t count) const;

  Compression compression;
  LowRank low_rank{};
};

// The exact size of `count` encoded elements.
[[nodiscard]] std::size_t encoded_bytes(const Encoding& encoding, std::size_t count);

// What was encoded in this process so far, by the form in which it travels.
struct EncodedCounts {
  std::uint64_t tensors = 0;  // and blocks of tensors
  std::uint64_t bytes = 0;    // encoded
};
[[nodiscard]] EncodedCounts encoded_counts(Compression form);

// Encodes; holds about 450 KiB of scratch after its first sketch. One thread at a time.
class Encoder {
 public:
  Encoder();
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // `into` has encoded_bytes() bytes, at any address.
  void encode(const Encoding& encoding, std::span<const float> values, std::span<std::byte> into);
  // Encodes values + residual, and leaves in the residual what that has lost. An empty residual: the values.
  void encode(const Encoding& encoding, std::span<const float> values, std::span<std::byte> into,
              std::span<float> residual);

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
                                            const Encoding& encoding, std::size_t count);
  // to[i] = value i.
  void decode(std::span<float> to) const;
  // to[i] += weight * value i.
  void add(float weight, std::span<float> to) const;

 private:
  Encoded(const Encoding& encoding, Compression form, std::span<const std::byte> body)
      : encoding_(encoding), form_(form), body_(body) {}

  Encoding encoding_;
  Compression form_;
  std::span<const std::byte> body_;  // without the header
};

// The same error with the rank that sent the bytes.
[[nodiscard]] Status from_rank(Rank rank, const Status& status);

// y := the weighted sum of x and of encoded tensors, divided if it is a mean (take_divisor()). The first term
// is x itself, f32 like y, which it may be; the others are encoded, and ranks[i] sent terms[i + 1]. Terms
// without data are left out.
[[nodiscard]] Status combine_encoded(const Encoding& encoding, std::span<Term> terms,
                                     std::span<const Rank> ranks, std::span<float> y);

// What is not finite becomes 0.
void drop_what_is_not_finite(std::span<float> values);

// What an ErrorFeedback names (weft/feedback.h).
class Residual {
 public:
  std::mutex mutex;  // guards the flag, and the values while no operation uses them
  bool is_in_use = false;
  std::vector<float> values;
};

// The use of a residual by one operation, until end().
class ResidualUse {
 public:
  ResidualUse() = default;  // of none
  ~ResidualUse() { end(); }
  ResidualUse(ResidualUse&&) noexcept = default;
  ResidualUse& operator=(ResidualUse&& other) noexcept;

  // For a tensor of so many elements. invalid_argument: another operation uses it, or it has the residual of
  // another number. `feedback` may be null: a use of none.
  [[nodiscard]] static Result<ResidualUse> begin(const ErrorFeedback* feedback,
                                                 std::string_view what, std::size_t count);
  // Empty: there is none.
  [[nodiscard]] std::span<float> values() const;
  void swap(ResidualUse& other) { residual_->values.swap(other.residual_->values); }
  void end();

 private:
  std::shared_ptr<Residual> residual_;
};

// Encoded tensors in memory of the shared heap, which peers read. Operations of one shape come again and
// again, so what one gives back serves the next one. Any thread.
class Encodings {
 public:
  // At least so many bytes.
  [[nodiscard]] Result<Memory> take(std::size_t bytes);
  // Memory that no peer reads any more.
  void give(Memory memory);
  // Encoder::encode().
  void encode(const Encoding& how, std::span<const float> values, std::span<std::byte> into,
              std::span<float> residual = {});
  // Takes memory, and encodes into it.
  [[nodiscard]] Result<Memory> encode(const Encoding& how, std::span<const float> values,
                                      std::span<float> residual);

 private:
  static constexpr std::size_t kMostFree = 12;

  std::mutex mutex_;          // guards the list
  std::vector<Memory> free_;  // by when they were given back
  std::mutex encoder_mutex_;
  Encoder encoder_;
};

}  // namespace weft
