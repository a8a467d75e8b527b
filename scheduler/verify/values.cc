// verify_values: field arithmetic and the meaning of a combine.
#include "scheduler/verify/values.h"

namespace weft::verifier {
namespace {

constexpr Field kPrime = (std::uint64_t{1} << 61) - 1;
__extension__ using Wide = unsigned __int128;

// Each kind of symbol draws from its own stream.
enum Stream : std::uint64_t { kInputs = 1, kEdges, kScale, kInsideMachines, kCompletion };

// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): every input bit changes half the
// output bits.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t word_of(Rank rank) {
  return static_cast<std::uint64_t>(rank);
}

}  // namespace

Field add(Field a, Field b) {
  const Field sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

Field subtract(Field a, Field b) {
  return add(a, kPrime - b);
}

// 2^61 is 1 mod the prime, so the high part of the product is added to the low part.
Field multiply(Field a, Field b) {
  const Wide wide = Wide{a} * b;
  return add(static_cast<Field>(wide >> 61), static_cast<Field>(wide) & kPrime) % kPrime;
}

std::uint64_t mix(std::uint64_t digest, std::uint64_t word) {
  return scramble(digest ^ scramble(word));
}

Symbols::Symbols(std::uint64_t seed, std::span<const int> machine, MeanInput means)
    : seed_(seed), machine_(machine), means_(means) {
  for (const int of_rank : machine) {
    const auto index = static_cast<std::size_t>(of_rank);
    if (ranks_on_.size() <= index) ranks_on_.resize(index + 1, 0);
    ++ranks_on_[index];
  }
}

Field Symbols::draw(std::uint64_t kind, std::uint64_t a, std::uint64_t b) const {
  return mix(mix(mix(seed_, kind), a), b) % (kPrime - 2) +
         2;  // neither 0 nor 1: those would hide faults
}

Field Symbols::input(Rank rank, std::size_t element) const {
  const bool is_mean = means_ == MeanInput::of_machine;
  return draw(kInputs, is_mean ? owner_of_weights(rank) : word_of(rank), element);
}

Field Symbols::weight(const View& view, const Weight& weight) const {
  switch (weight.kind) {
    case Weight::Kind::one:
      return 1;
    case Weight::Kind::self:
      return edge(view.rank, view.rank);
    case Weight::Kind::edge: {
      const Rank peer = view.in[weight.index];
      const bool is_inside = owner_of_weights(peer) == owner_of_weights(view.rank);
      return is_inside ? draw(kInsideMachines, word_of(view.rank), word_of(peer))
                       : edge(view.rank, peer);
    }
    case Weight::Kind::scale:
      return scale(view.rank, view.size);
  }
  return 0;
}

std::uint64_t Symbols::owner_of_weights(Rank rank) const {
  return word_of(machine_.empty() ? rank : machine_[static_cast<std::size_t>(rank)]);
}

Field Symbols::edge(Rank to, Rank from) const {
  return draw(kEdges, owner_of_weights(to), owner_of_weights(from));
}

Field Symbols::of_average(std::uint64_t kind, Rank rank, int size) const {
  if (machine_.empty()) return size == 1 ? 1 : draw(kind, 0, 0);
  const std::uint64_t machine = owner_of_weights(rank);
  return ranks_on_[machine] == 1 ? 1 : draw(kind, 1, machine);
}

Field Symbols::scale(Rank rank, int size) const {
  return of_average(kScale, rank, size);
}

Field Symbols::completion(Rank rank, int size) const {
  return of_average(kCompletion, rank, size);
}

Value Symbols::input_value(Rank rank, std::size_t element) const {
  const Field symbol = input(rank, element);
  return {symbol, symbol, symbol};
}

// A weighted combine is a sum whatever the call's operator is; a reduction is the operator.
void Term::take(const Value& value, const Weight& weight, Field factor) {
  if (combining_ == Combining::copy) {
    value_ = value;
    return;
  }
  if (is_first_) value_ = {0, combining_ == Combining::reduce ? Field{1} : Field{0}, 0};
  is_first_ = false;
  value_.average = add(value_.average, multiply(factor, value.average));
  value_.product = combining_ == Combining::reduce
                       ? multiply(value_.product, value.product)
                       : add(value_.product, multiply(factor, value.product));
  value_.bits = mix(mix(value_.bits, static_cast<std::uint64_t>(weight.kind) + 1), value.bits);
}

// The division is by the same number wherever it is done, but it rounds.
void Term::complete(Field factor) {
  value_.average = multiply(factor, value_.average);
  if (combining_ == Combining::weighted) value_.product = multiply(factor, value_.product);
  value_.bits = mix(value_.bits, kCompletion);
}

}  // namespace weft::verifier
