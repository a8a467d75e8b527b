// Pair: interfaces of several ranks over a scripted device of each, all owned by the test's thread;
// and the actions of which the tests of verbs/ib are made.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/ib/scripted_device.h"
#include "tests/transport/group.h"
#include "verbs/ib/interface.h"

namespace weft::ib {

// Rank r uses device "scripted<r>", whose addresses are 10.0.<network>.<r + 1>. With fewer devices
// than ranks it uses "scripted<r mod devices>".
class Ranks {
 public:
  explicit Ranks(int ranks, std::vector<int> networks = {0}, IbOptions ib = {}, int devices = 0);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Fabric fabric;
  InterfaceOptions options = small_options();
  IbOptions ib;

  static std::string device(Rank rank) { return "scripted" + std::to_string(rank); }
  Result<std::unique_ptr<Interface>> try_open(Rank rank);
  void open(Rank rank) { interfaces_.at(static_cast<std::size_t>(rank)) = must(try_open(rank)); }
  void open_all();
  void drop(Rank rank) { interfaces_.at(static_cast<std::size_t>(rank)).reset(); }
  [[nodiscard]] Interface& at(Rank rank) { return *interfaces_.at(static_cast<std::size_t>(rank)); }
  Endpoint& link(Rank from, Rank to) { return *must(at(from).connect(to, at(to).address())); }
  // Posts number `n`; whether that was possible.
  bool post(Rank from, Rank to, std::uint32_t n, std::size_t bytes = 9, std::uint32_t channel = 1);
  // Waits for number `n` and releases it.
  testing::AssertionResult receive(Rank from, Rank to, std::uint32_t n, std::size_t bytes = 9,
                                   std::uint32_t channel = 1);
  // One notice each way, so that both ends are connected.
  void meet(Rank a, Rank b);
  // A turn of every interface.
  void turn();
  template <typename Predicate>
  bool eventually(Predicate done) {
    return weft::eventually([&] {
      turn();
      return done();
    });
  }

 private:
  int devices_;
  std::vector<std::unique_ptr<Interface>> interfaces_;
};

}  // namespace weft::ib
