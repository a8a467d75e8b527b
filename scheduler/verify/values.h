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
// Adds a word to a digest. The order of the words matters.
[[nodiscard]] std::uint64_t mix(std::uint64_t digest, std::uint64_t word);

// The value of one element, in three calls of the same plan at once.
struct Value {
  Field average = 0;  // in a call whose operator is an average: weights apply
  // In a call whose operator is a product: weights do not apply, and each source must come once.
  Field product = 1;
  // A digest of the expression and its order. If two are equal, floating-point results have equal
  // bits.
  std::uint64_t bits = 0;
};

// The random numbers that stand for inputs and weights; pure functions of the seed. `machine` has
// the machine of each rank; empty if machines do not matter. If it is given, all ranks of a machine
// have the scale and the weights of the machine, and an edge inside a machine has a weight that no
// right result contains.
class Symbols {
 public:
  // `means`: ranks of a machine have the same input.
  Symbols(std::uint64_t seed, std::span<const int> machine, MeanInput means = MeanInput::of_rank);

  [[nodiscard]] Field input(Rank rank, std::size_t element) const;
  // What `weight` means in the plan of `view`'s rank.
  [[nodiscard]] Field weight(const View& view, const Weight& weight) const;
  // The weight that `to` applies to data from `from`, which may be `to` itself.
  [[nodiscard]] Field edge(Rank to, Rank from) const;
  // The scale for an average over `size` ranks, or over the ranks of the machine of `rank`, and by
  // what a whole result is multiplied. Both are 1 for one rank.
  [[nodiscard]] Field scale(Rank rank, int size) const;
  [[nodiscard]] Field completion(Rank rank, int size) const;
  [[nodiscard]] Value input_value(Rank rank, std::size_t element) const;

 private:
  [[nodiscard]] Field draw(std::uint64_t kind, std::uint64_t a, std::uint64_t b) const;
  [[nodiscard]] Field of_average(std::uint64_t kind, Rank rank, int size) const;
  // The number whose weights a rank uses: its machine's or its own.
  [[nodiscard]] std::uint64_t owner_of_weights(Rank rank) const;

  std::uint64_t seed_;
  std::span<const int> machine_;
  MeanInput means_;
  std::vector<int> ranks_on_;  // by machine
};

// The value of a combine, built up operand by operand.
class Term {
 public:
  explicit Term(Combining combining) : combining_(combining) {}
  void take(const Value& value, const Weight& weight, Field factor);
  // The result is whole.
  void complete(Field factor);
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Combining combining_;
  bool is_first_ = true;
  Value value_;
};

}  // namespace weft::verifier
