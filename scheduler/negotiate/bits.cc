// bits: see the header.
#include "scheduler/negotiate/bits.h"

#include <algorithm>
#include <cstring>

namespace weft::negotiate {

Bits::Bits(std::size_t size, bool value)
    : size_(size), words_((size + 63) / 64, value ? ~std::uint64_t{0} : 0) {
  if (value && size % 64 != 0) words_.back() >>= 64 - size % 64;
}

bool Bits::any() const {
  return std::ranges::any_of(words_, [](std::uint64_t word) { return word != 0; });
}

Bits& Bits::operator&=(const Bits& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  return *this;
}

Bits& Bits::operator|=(const Bits& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

void Bits::write(std::byte* into) const {
  if (size_ != 0) std::memcpy(into, words_.data(), bytes());
}

void Bits::read(const std::byte* from) {
  if (size_ == 0) return;
  std::memcpy(words_.data(), from, bytes());
  if (size_ % 64 != 0) words_.back() &= ~std::uint64_t{0} >> (64 - size_ % 64);
}

}  // namespace weft::negotiate
