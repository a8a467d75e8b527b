// ScriptedPath: an endpoint on which only one-sided work is posted. It does the work on memory of the
// test, or fails it, as the test says.
#pragma once

#include <cstring>
#include <deque>

#include "engine/lane/lane.h"
#include "verbs/transport/transport.h"

namespace weft {

class ScriptedPath final : public Endpoint {
 public:
  explicit ScriptedPath(std::span<std::byte> memory) : memory_(memory) {}

  // How many works from now on end well before those behind them fail; -1: all.
  int good = -1;
  bool lingers = false;
  std::size_t writes = 0;

  // Tells of all work that has ended.
  void tell() {
    while (!ended_.empty()) {
      const auto [ticket, status] = ended_.front();
      ended_.pop_front();
      WorkOwner::of(ticket).work_ended(status);
    }
  }

  Posted post_write(std::span<const std::byte> local, const RemoteBuffer& remote,
                    std::uint64_t ticket) override {
    ++writes;
    return end(ticket, [&] { std::memcpy(at(remote), local.data(), local.size()); });
  }
  Posted post_read(std::span<std::byte> local, const RemoteBuffer& remote,
                   std::uint64_t ticket) override {
    return end(ticket, [&] { std::memcpy(local.data(), at(remote), local.size()); });
  }
  [[nodiscard]] bool work_may_linger() const override { return lingers; }
  [[nodiscard]] Rank peer() const override { return 1; }
  [[nodiscard]] const Status& failure() const override { return failure_; }
  void abandon(const Status& why) override { failure_ = why; }

  // The rest of the contract has no part in slots.
  Posted post_compare_swap(const RemoteBuffer&, std::uint64_t, std::uint64_t, std::uint64_t*,
                           std::uint64_t) override {
    return Posted::full;
  }
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
    return {Code::unavailable, "only posted work"};
  }

 private:
  [[nodiscard]] std::byte* at(const RemoteBuffer& remote) const {
    return memory_.data() + remote.word;
  }
  template <typename Do>
  Posted end(std::uint64_t ticket, Do&& work) {
    const bool ends_well = good != 0;
    if (good > 0) --good;
    if (ends_well) work();
    ended_.emplace_back(ticket,
                        ends_well ? Status() : Status(Code::unavailable, "the path failed"));
    return Posted::posted;
  }

  const std::span<std::byte> memory_;
  std::deque<std::pair<std::uint64_t, Status>> ended_;
  Status failure_;
};

}  // namespace weft
