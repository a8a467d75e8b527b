// Two ranks joined by simulated rails, and streams of numbered messages between them that check
// what comes. Time is a count, too: of turns, each so long.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/network.h"
#include "verbs/bond/bond.h"

namespace weft {

inline constexpr std::uint32_t kSimChannels = 3;
inline constexpr std::size_t kSimPayload = 64;
inline constexpr std::int64_t kTurnNs = 100'000;

// The clock of all bonds here.
std::int64_t& simulated_ns();

struct PairOptions {
  std::vector<SimOptions> rails;
  std::uint32_t slots = 4;
  std::int64_t silence_ms = 30;
  std::int64_t return_ms = 20;
  std::int64_t slow_ms = 2000;
  std::size_t gone = SIZE_MAX;  // a rail that rank 0 finds and cannot open
};

class Pair {
 public:
  explicit Pair(PairOptions options);
  // Over the rails of another one, as a context that was split from another has them.
  Pair(PairOptions options, const Pair& beside) : Pair(std::move(options), beside.networks_) {}

  // Looks first whether the turn before left the bond in a state that can be.
  [[nodiscard]] Interface& at(Rank rank);
  [[nodiscard]] Endpoint& from(Rank rank) {
    return *at(rank).connect(1 - rank, at(1 - rank).address()).value();
  }
  // What is due comes into the rank's memory, and nobody looks at it.
  void arrive(Rank rank) {
    for (Interface* member : members_[rank]) member->progress();
  }
  // What rank's paths are like, in words; those of one rail.
  [[nodiscard]] std::string paths(Rank rank) { return from(rank).describe(); }
  [[nodiscard]] std::string path(Rank rank, std::size_t rail);
  [[nodiscard]] bool lives(std::size_t rail);

  // Rails that rank 0 was told it does without.
  [[nodiscard]] const std::vector<std::size_t>& left_out() const { return left_out_; }
  [[nodiscard]] int rails() const { return static_cast<int>(networks_.size()); }
  [[nodiscard]] SimNetwork& rail(std::size_t rail) { return *networks_[rail]; }
  // Half a cut is told to rank `first`.
  void cut(std::size_t rail, SimNetwork::Cut how, Rank first = 0) {
    networks_[rail]->cut(*members_[first][rail], *members_[1 - first][rail], how);
  }
  // As a bond that closes does with all its members, one after the other.
  void close(Rank rank, std::size_t rail) { members_[rank][rail]->close(); }

 private:
  using Networks = std::vector<std::shared_ptr<SimNetwork>>;
  Pair(PairOptions options, Networks networks);

  Networks networks_;
  std::vector<Interface*> members_[2];
  std::unique_ptr<Interface> ends_[2];
  std::vector<std::size_t> left_out_;
};

// Sends numbered messages over a channel, those of up to kSimPayload bytes as notices and longer
// ones as pieces, and checks that each comes once, whole and in order.
class PairStream {
 public:
  PairStream(Endpoint& sender, Endpoint& receiver, std::uint32_t channel, std::uint32_t total,
             std::function<std::size_t(std::uint32_t number)> size)
      : sender_(sender),
        receiver_(receiver),
        channel_(channel),
        total_(total),
        size_(std::move(size)) {}

  [[nodiscard]] bool done() const { return sent_ == total_ && received_ == total_; }
  [[nodiscard]] bool locally_completed() { return sender_.locally_completed(channel_) == total_; }
  // All that was sent until now came, and the sender knows.
  [[nodiscard]] bool caught_up() {
    return received_ == sent_ && sender_.locally_completed(channel_) == sent_;
  }
  // Something came that never has a turn: it came before.
  [[nodiscard]] bool has_doubles() { return receiver_.arrived(channel_) > received_; }
  [[nodiscard]] std::uint32_t channel() const { return channel_; }
  [[nodiscard]] std::uint32_t sent() const { return sent_; }
  [[nodiscard]] std::uint32_t received() const { return received_; }

  // Posts one, if it can, and takes one.
  void turn();
  void take();

 private:
  void post();
  void forget();

  Endpoint& sender_;
  Endpoint& receiver_;
  std::uint32_t channel_, total_;
  std::function<std::size_t(std::uint32_t number)> size_;
  std::uint32_t sent_ = 0, received_ = 0;
  std::uint64_t forgotten_ = 0;
  std::deque<std::vector<std::byte>> sources_;
};

}  // namespace weft
