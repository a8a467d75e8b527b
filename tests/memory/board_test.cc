// Addresses without pages, and the board that peers find.
#include "tests/memory/fresh_heap.h"

namespace weft {
namespace {

TEST(Board, IsZeroAtFirstAndAlwaysTheSame) {
  with_heap({}, [] {
    Result<std::byte*> board = heap_board();
    ASSERT_TRUE(board.ok()) << board.status().to_string();
    for (std::size_t at = 0; at < kBoardBytes; ++at) ASSERT_EQ((*board)[at], std::byte{0});
    EXPECT_EQ(*heap_board(), *board);
    const HeapIdentity own = heap_identity().value();
    const std::shared_ptr<const PeerHeap> heap = PeerHeap::open(own).value();
    EXPECT_EQ(heap->board(), *board);
    EXPECT_EQ(heap->nonce(), own.nonce);
  });
}

TEST(Board, ReservedAddressesAreOfTheHeapAndTakeNoMemory) {
  with_heap({}, [] {
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    (void)take(1);
    const HeapUsage before = heap_usage();
    Result<void*> reserved = reserve_heap_addresses(kBytes);
    ASSERT_TRUE(reserved.ok()) << reserved.status().to_string();
    EXPECT_NE(heap_offset(*reserved, kBytes), kNotInHeap);
    EXPECT_EQ(heap_usage().allocated_bytes, before.allocated_bytes);
    // What is allocated lies elsewhere, and the addresses are given out again.
    const Memory other = Memory::allocate(kBytes).value();
    EXPECT_NE(other.data(), *reserved);
    deallocate(*reserved);
    EXPECT_EQ(reserve_heap_addresses(kBytes).value(), *reserved);
    deallocate(*reserved);
    EXPECT_EQ(reserve_heap_addresses(std::size_t{1} << 60).status().code(), Code::exhausted);
  });
}

}  // namespace
}  // namespace weft
