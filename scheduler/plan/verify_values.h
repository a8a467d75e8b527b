// verify_values: the symbols that plans are run with, and what an element's value is. Internal to
// the verifier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"

namespace weft::verifier {

// Numbers mod 2^61-1, exact.
using Field = std::uint64_t;
[[nodiscard]] Field add(Field a, Field b);
[[nodiscard]] Field subtract(Field a, Field b);
[[nodiscard]] Field multiply(Field a, Field b);
// A new word of a digest: order matters.
[[nodiscard]] std::uint64_t mix(std::uint64_t digest, std::uint64_t word);

// One element, carried through three calls of the same plan at once.
struct Value {
  Field average = 0;  // a call whose operator is an average: weights apply
  Field product =
      1;  // a call whose operator is a product: weights do not, and each source must come once
  std::uint64_t bits =
      0;  // the expression itself, its order included: equal means equal bits in floating point
};

// The random numbers that stand for inputs and weights; pure functions of the seed. Where ranks are
// on machines (`machine`, by rank; empty: they are not), the ranks of a machine have its scale and
// its weights, and an edge inside it has a weight that belongs in no result.
class Symbols {
 public:
  Symbols(std::uint64_t seed, std::span<const int> machine);

  [[nodiscard]] Field input(Rank rank, std::size_t element) const;
  // What `weight` means in the plan of `view`'s rank.
  [[nodiscard]] Field weight(const View& view, const Weight& weight) const;
  // The weight that `to` gives to what comes from `from`, itself included.
  [[nodiscard]] Field edge(Rank to, Rank from) const;
  // Of `rank` among `size` ranks, or among those of its machine. The scale of one rank is 1, as an
  // average of one is.
  [[nodiscard]] Field scale(Rank rank, int size) const;
  [[nodiscard]] Value input_value(Rank rank, std::size_t element) const;

 private:
  [[nodiscard]] Field draw(std::uint64_t kind, std::uint64_t a, std::uint64_t b) const;
  // Whose weights a rank has: its machine's or its own.
  [[nodiscard]] std::uint64_t owner_of_weights(Rank rank) const;

  std::uint64_t seed_;
  std::span<const int> machine_;
  std::vector<int> ranks_on_;  // by machine
};

// The value of a combine, built up operand by operand.
class Term {
 public:
  explicit Term(Combining combining) : combining_(combining) {}
  void take(const Value& value, const Weight& weight, Field factor);
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Combining combining_;
  bool is_first_ = true;
  Value value_;
};

}  // namespace weft::verifier
