// bits: a vector of bits, one for each place of the response cache.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::negotiate {

class Bits {
 public:
  Bits() = default;
  explicit Bits(std::size_t size, bool value = false);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool test(std::size_t place) const {
    return (words_[place / 64] >> place % 64 & 1) != 0;
  }
  void clear(std::size_t place) { words_[place / 64] &= ~(std::uint64_t{1} << place % 64); }
  void set(std::size_t place) { words_[place / 64] |= std::uint64_t{1} << place % 64; }
  [[nodiscard]] bool any() const;
  // Adds zeros.
  void grow(std::size_t size) {
    size_ = size;
    words_.resize((size + 63) / 64);
  }

  // Of vectors of the same size.
  Bits& operator&=(const Bits& other);
  Bits& operator|=(const Bits& other);

  // The bits as bytes: bit i is bit i % 8 of byte i / 8.
  [[nodiscard]] std::size_t bytes() const { return (size_ + 7) / 8; }
  void write(std::byte* into) const;
  void read(const std::byte* from);

 private:
  std::size_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace weft::negotiate
