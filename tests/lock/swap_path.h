// SwapPath: an endpoint on which only compare-and-swaps are posted, and which keeps them for the
// test to answer.
#pragma once

#include <deque>

#include "verbs/transport/transport.h"

namespace weft {

struct PostedSwap {
  RemoteBuffer remote;
  std::uint64_t expected = 0;
  std::uint64_t desired = 0;
  std::uint64_t* found = nullptr;
  std::uint64_t ticket = 0;
};

class SwapPath final : public Endpoint {
 public:
  explicit SwapPath(Rank owner) : owner_(owner) {}

  std::deque<PostedSwap> posted_swaps;
  bool is_full = false;

  [[nodiscard]] Rank peer() const override { return owner_; }
  [[nodiscard]] const Status& failure() const override { return failure_; }
  void abandon(const Status& why) override { failure_ = why; }
  Posted post_compare_swap(const RemoteBuffer& remote, std::uint64_t expected,
                           std::uint64_t desired, std::uint64_t* found,
                           std::uint64_t ticket) override {
    if (is_full) return Posted::full;
    posted_swaps.push_back({remote, expected, desired, found, ticket});
    return Posted::posted;
  }

  // The rest of the contract has no part in locks.
  [[nodiscard]] bool peer_closed() const override { return false; }
  [[nodiscard]] bool shares_memory() const override { return false; }
  Posted post_notice(std::uint32_t, const WireHeader&, std::span<const std::byte>) override {
    return Posted::full;
  }
  Posted post_piece(std::uint32_t, const WireHeader&, std::span<const std::byte>) override {
    return Posted::full;
  }
  [[nodiscard]] Notice front(std::uint32_t) override { return {}; }
  void release(std::uint32_t) override {}
  [[nodiscard]] std::uint64_t arrived(std::uint32_t) override { return 0; }
  [[nodiscard]] std::uint64_t posted(std::uint32_t) const override { return 0; }
  [[nodiscard]] std::uint64_t released(std::uint32_t) override { return 0; }
  [[nodiscard]] std::uint64_t settled(std::uint32_t) override { return 0; }
  [[nodiscard]] const Status& process_access() const override { return failure_; }
  [[nodiscard]] const std::byte* view(const RemoteBuffer&) override { return nullptr; }
  Status read_now(std::span<std::byte>, const RemoteBuffer&) override {
    return {Code::unavailable, "only swaps"};
  }
  Posted post_write(std::span<const std::byte>, const RemoteBuffer&, std::uint64_t) override {
    return Posted::full;
  }
  Posted post_read(std::span<std::byte>, const RemoteBuffer&, std::uint64_t) override {
    return Posted::full;
  }

 private:
  const Rank owner_;
  Status failure_;
};

}  // namespace weft
