// Everything that can happen to a few ranks that want one lock: a World is one course of events,
// explore() goes through all of them.
//
// Ranks take and release as often as they want. Between two steps of theirs a swap reaches the
// word, its answer reaches the rank, a path fails (the rank goes on over another; what was under
// way may still reach the word, at any later time, answered to nobody), a swap comes twice, a
// deadline passes, a rank dies; the unlikely ones a bounded number of times. There is no time in
// it: whoever waits may ask at any moment.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/transport/fake_endpoint.h"
#include "verbs/lock/lock.h"

namespace weft {

struct WorldOptions {
  std::vector<Rank> ranks = {0, 1};  // two of the same rank are two locks of one process
  int wants = 1;                     // how often each takes the lock
  int cuts = 0;
  int repeats = 0;
  int deadlines = 0;
  int deaths = 0;
  // What is left out of the protocol on purpose: bits of the word that are not compared, and
  // whether locks of one rank number their attempts for themselves.
  std::uint64_t ignored_bits = 0;
  bool separate_attempts = false;
};

class World {
 public:
  explicit World(const WorldOptions& options);

  enum class What : std::uint8_t {
    advance,
    acquire,
    release,
    late,
    die,
    cut,
    land,
    answer,
    repeat
  };
  struct Event {
    What what = What::advance;
    std::size_t which = 0;  // a rank's or a swap's place
  };
  // What can happen now.
  [[nodiscard]] std::vector<Event> events() const;
  void happen(const Event& event);

  // All that decides what can still happen.
  [[nodiscard]] std::string signature() const;
  // Empty, or what is wrong: two hold the lock, or one holds it that the word does not name.
  [[nodiscard]] std::string breach() const;
  // Everyone alive had the lock as often as it wanted and nobody alive is left in the word.
  [[nodiscard]] bool is_good_end() const;

 private:
  struct Swap {
    std::size_t client = 0;
    std::uint64_t expected = 0;
    std::uint64_t desired = 0;
    std::uint64_t* found = nullptr;  // null: its answer reaches nobody
    bool landed = false;
    std::uint64_t result = 0;
  };
  struct Client {
    Rank rank = 0;
    bool alive = true;
    bool in_doubt = false;  // its last swap ended with its path
    int wants = 0;
    std::uint64_t expected = 0;  // of the last swap
    std::uint64_t desired = 0;
    LockAttempts* attempts = nullptr;
    std::deque<FakeEndpoint> paths;
    std::unique_ptr<Lock> lock;
  };

  [[nodiscard]] bool is_due(const Client& client) const;
  void advance(std::size_t which, std::int64_t now_ns);
  void land(Swap& swap);
  void answer(std::size_t which);
  void forsake(std::size_t which);
  void cut(std::size_t which);
  void die(Rank rank);

  WorldOptions options_;
  std::uint64_t word_ = 0;
  std::deque<LockAttempts> attempts_;
  std::deque<Client> clients_;
  std::vector<Swap> swaps_;
};

struct Explored {
  std::size_t states = 0;
  std::string wrong;  // the first breach, or a state from which no good end is reached; else empty
};
[[nodiscard]] Explored explore(const WorldOptions& options);

// One course, drawn from the seed; what is wrong with it, or empty.
[[nodiscard]] std::string play(const WorldOptions& options, std::uint64_t seed);

}  // namespace weft
