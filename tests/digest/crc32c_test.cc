// CRC-32C: the standard's own examples, the two ways of computing it against a third one, and the damage
// that it must find.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string_view>
#include <vector>

#include "engine/digest/digest.h"

namespace weft {
namespace {

std::vector<unsigned char> noise(std::size_t bytes) {
  std::mt19937 random(11);
  std::vector<unsigned char> data(bytes);
  for (unsigned char& byte : data) byte = static_cast<unsigned char>(random());
  return data;
}

// Bit by bit, as the definition has it.
std::uint32_t by_definition(const unsigned char* data, std::size_t bytes, std::uint32_t seed = 0) {
  std::uint32_t crc = ~seed;
  for (std::size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

TEST(Crc32c, HasTheValuesOfTheStandard) {
  constexpr std::string_view kDigits = "123456789";
  std::vector<unsigned char> up(32), down(32);
  for (std::size_t i = 0; i < up.size(); ++i) {
    up[i] = static_cast<unsigned char>(i);
    down[i] = static_cast<unsigned char>(31 - i);
  }
  const std::vector<unsigned char> zeros(32, 0), ones(32, 0xFF);
  for (const auto crc : {&crc32c, &crc32c_portable}) {
    EXPECT_EQ(crc(kDigits.data(), kDigits.size(), 0), 0xE3069283);
    EXPECT_EQ(crc(zeros.data(), 32, 0), 0x8A9136AA);
    EXPECT_EQ(crc(ones.data(), 32, 0), 0x62A8AB43);
    EXPECT_EQ(crc(up.data(), 32, 0), 0x46DD794E);
    EXPECT_EQ(crc(down.data(), 32, 0), 0x113FDB5C);
    EXPECT_EQ(crc(nullptr, 0, 0), 0U);
  }
}

// Around the lengths at which the ways change, at every alignment of a word.
TEST(Crc32c, IsTheDefinitionForEveryLength) {
  const std::vector<unsigned char> data = noise(40'000);
  for (const std::size_t about : {8, 16, 768, 1536, 12'288, 24'576 + 768}) {
    for (std::size_t bytes = about - 8; bytes <= about + 9; ++bytes) {
      const unsigned char* const from = data.data() + bytes % 8;
      const std::uint32_t expected = by_definition(from, bytes);
      ASSERT_EQ(crc32c(from, bytes), expected) << bytes;
      ASSERT_EQ(crc32c_portable(from, bytes), expected) << bytes;
    }
  }
}

TEST(Crc32c, GoesOnFromASeed) {
  const std::vector<unsigned char> data = noise(30'000);
  const std::uint32_t whole = crc32c(data.data(), data.size());
  for (const std::size_t cut : {0, 1, 7, 800, 13'000, 29'999, 30'000}) {
    EXPECT_EQ(crc32c(data.data() + cut, data.size() - cut, crc32c(data.data(), cut)), whole);
    EXPECT_EQ(crc32c_portable(data.data() + cut, data.size() - cut, crc32c(data.data(), cut)),
              whole);
  }
}

TEST(Crc32c, TellsEveryFlippedBit) {
  std::vector<unsigned char> data = noise(1600);
  const std::uint32_t whole = crc32c(data.data(), data.size());
  for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    ASSERT_NE(crc32c(data.data(), data.size()), whole) << bit;
    data[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
  }
}

}  // namespace
}  // namespace weft
