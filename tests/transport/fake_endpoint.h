// FakeEndpoint: an endpoint without a network, for tests of what is built on one. It carries no
// notices, and keeps one-sided work for the test to answer.
#pragma once

#include <deque>

#include "verbs/transport/transport.h"

namespace weft {

class FakeEndpoint final : public Endpoint {
 public:
  explicit FakeEndpoint(Rank peer) : Endpoint({.peer = peer}, true) {}

  std::deque<WorkRequest> works;  // posted and not answered, oldest first
  bool is_full = false;
  bool lingers = false;

  [[nodiscard]] std::string describe() const override { return "fake"; }
  [[nodiscard]] bool peer_closed() const override { return false; }
  void abandon(const Status& why) override { failure_ = why; }

  Posted post(std::uint32_t, const WireHeader&, std::span<const std::byte>, Payload) override {
    return Posted::full;
  }
  [[nodiscard]] Notice front(std::uint32_t) override { return {}; }
  void release(std::uint32_t) override {}
  [[nodiscard]] std::uint64_t arrived(std::uint32_t) override { return 0; }
  [[nodiscard]] std::uint64_t posted(std::uint32_t) const override { return 0; }
  [[nodiscard]] std::uint64_t released(std::uint32_t) override { return 0; }
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t) override { return 0; }

  Posted post_work(const WorkRequest& work) override {
    if (is_full) return Posted::full;
    works.push_back(work);
    return Posted::posted;
  }
  [[nodiscard]] WorkState work_state() const override { return {.may_linger = lingers}; }
  Status import_region_as(std::uint32_t, std::string_view) override {
    return Status(Code::unavailable, "a fake has no regions");
  }
  void drop_region(std::uint32_t) override {}
};

}  // namespace weft
