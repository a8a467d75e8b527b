// A network of negotiators, simulated from a seed: messages between two ranks keep their order, and
// everything else arrives in any order.
#pragma once

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "scheduler/negotiate/negotiate.h"

namespace weft::test {

class Network {
 public:
  Network(int size, std::uint64_t seed, const NegotiateOptions& options = {});

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Negotiator& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  // What a rank was told, in order: "run a", "fail b: …", "joined 3", "stalled: …".
  [[nodiscard]] const std::vector<std::string>& told(int rank) const {
    return told_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::vector<std::string> names_run(int rank) const;
  // How many decisions each cycle had that had any.
  [[nodiscard]] const std::vector<std::size_t>& cycles(int rank) const {
    return cycles_[static_cast<std::size_t>(rank)];
  }

  // Delivers one message, a random one of those that may come next. False: there is none.
  bool deliver_one();
  // Lets every rank begin what it can, and delivers all messages.
  void settle();
  void step(int rank);
  void pass(std::int64_t ns) { now_ += ns; }
  [[nodiscard]] std::int64_t now() const { return now_; }
  // Changes a message before it is delivered.
  void corrupt(int from, int to, const std::vector<std::byte>& bytes);

 private:
  void collect(int rank);
  static std::string text_of(const Decision& decision);

  std::vector<Negotiator> ranks_;
  std::vector<std::vector<std::string>> told_;
  std::vector<std::vector<std::size_t>> cycles_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> wires_;
  std::vector<std::pair<int, int>> under_way_;  // one entry for each message
  std::mt19937_64 random_;
  std::int64_t now_ = 0;
};

// A request for an allreduce of so many float32.
[[nodiscard]] NamedRequest sum_of(std::string name, std::size_t count = 4);

}  // namespace weft::test
