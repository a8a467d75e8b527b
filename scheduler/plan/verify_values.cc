// verify_values: field arithmetic and the meaning of a combine.
#include "scheduler/plan/verify_values.h"

namespace weft::verifier {
namespace {

constexpr Field kPrime = (std::uint64_t{1} << 61) - 1;
__extension__ using Wide = unsigned __int128;

// Each kind of symbol draws from its own stream.
enum Stream : std::uint64_t { kInputs = 1, kEdges, kScale };

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

Field Symbols::draw(std::uint64_t kind, std::uint64_t a, std::uint64_t b) const {
  return mix(mix(mix(seed_, kind), a), b) % (kPrime - 2) +
         2;  // neither 0 nor 1: those would hide faults
}

Field Symbols::input(Rank rank, std::size_t element) const {
  return draw(kInputs, word_of(rank), element);
}

Field Symbols::weight(const View& view, const Weight& weight) const {
  switch (weight.kind) {
    case Weight::Kind::one:
      return 1;
    case Weight::Kind::self:
      return draw(kEdges, word_of(view.rank), word_of(view.rank));
    case Weight::Kind::edge:
      return draw(kEdges, word_of(view.rank), word_of(view.in[weight.index]));
    case Weight::Kind::scale:
      return view.size == 1 ? 1 : draw(kScale, 0, 0);
  }
  return 0;
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

}  // namespace weft::verifier
