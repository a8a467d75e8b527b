// Copies of memory that another thread writes at the same time: a copy that a word in front of it
// proves whole is whole. Under ThreadSanitizer this test also shows that the race is no reported one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "verbs/transport/one_sided.h"

namespace weft {
namespace {

constexpr std::size_t kBytes = 1'003;  // with bytes beside whole words at both ends
constexpr int kWhole = 2'000;

struct Shared {
  alignas(8) std::array<std::byte, 8> word{};  // odd while `data` is written
  alignas(8) std::array<std::byte, kBytes + 16> memory{};
  [[nodiscard]] std::byte* data() { return memory.data() + 3; }
};

void publish_word(Shared& shared, std::uint64_t value) {
  publish_bytes(shared.word.data(), reinterpret_cast<const std::byte*>(&value), sizeof value);
}

std::uint64_t fetch_word(const Shared& shared) {
  std::uint64_t value = 0;
  fetch_bytes(reinterpret_cast<std::byte*>(&value), shared.word.data(), sizeof value);
  return value;
}

TEST(SharedCopy, ThatAWordProvesWholeIsWhole) {
  Shared shared;
  std::atomic<bool> is_done = false;
  std::thread writer([&] {
    std::vector<std::byte> data(kBytes);
    for (std::uint64_t round = 0; !is_done.load(std::memory_order_relaxed); ++round) {
      std::ranges::fill(data, static_cast<std::byte>(round));
      publish_word(shared, 2 * round + 1);
      publish_bytes(shared.data(), data.data(), kBytes);
      publish_word(shared, 2 * round + 2);
    }
  });
  std::vector<std::byte> copy(kBytes);
  int whole = 0;
  int torn = 0;
  while (whole < kWhole) {
    const std::uint64_t before = fetch_word(shared);
    if (before == 0) continue;
    copy_shared(copy.data(), shared.data(), kBytes);
    if (before % 2 != 0 || fetch_word(shared) != before) continue;
    ++whole;
    const auto expected = static_cast<std::byte>(before / 2 - 1);
    torn += std::ranges::all_of(copy, [=](std::byte byte) { return byte == expected; }) ? 0 : 1;
  }
  is_done = true;
  writer.join();
  EXPECT_EQ(torn, 0);
}

TEST(SharedCopy, TakesEveryByteOnceAtAnySizeAndAlignment) {
  std::vector<std::byte> from(64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  for (std::size_t start = 0; start < 9; ++start) {
    for (std::size_t bytes = 0; bytes < 40; ++bytes) {
      alignas(8) std::array<std::byte, 64> shared{};
      std::array<std::byte, 64> back{};
      publish_bytes(shared.data() + start, from.data(), bytes);
      EXPECT_EQ(std::ranges::count(shared, std::byte{0}), 64 - static_cast<std::ptrdiff_t>(bytes));
      copy_shared(back.data(), shared.data() + start, bytes);
      EXPECT_TRUE(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(bytes),
                             from.begin()));
      EXPECT_EQ(std::ranges::count(back, std::byte{0}), 64 - static_cast<std::ptrdiff_t>(bytes));
    }
  }
}

}  // namespace
}  // namespace weft
