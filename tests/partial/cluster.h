// A cluster of workers and their group generator, simulated from a seed in virtual time: messages
// between a worker and the generator keep their order, and take random times. An iteration of a
// worker of slowness 1 takes about 1.
//
// The generator lives with the lowest living worker. If a worker dies, a successor is made of what the
// living workers report.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "scheduler/partial/partial.h"

namespace weft::test {

struct ClusterOptions {
  GroupOptions groups{};
  std::map<Rank, double> slowness{};              // of workers that are slower than 1
  std::uint64_t iterations = 10;                  // of each worker, which then leaves
  double until = 1e9;                             // all stop then
  std::vector<std::pair<double, Rank>> deaths{};  // when, and who
  std::uint64_t seed = 1;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);

  // Until every living worker has ended its iterations, or that time.
  void run();

  // What must not happen, as text.
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }
  [[nodiscard]] std::uint64_t iterations(Rank rank) const { return at(rank).iterations; }
  [[nodiscard]] std::uint64_t iterations() const;
  [[nodiscard]] bool is_living(Rank rank) const { return at(rank).is_living; }
  // The longest time that a worker waited, from the end of its computation to its answer.
  [[nodiscard]] double longest_wait() const { return longest_wait_; }
  [[nodiscard]] std::uint64_t successions() const { return term_; }

 private:
  struct Worker {
    GroupReport report;
    bool is_living = true;
    bool is_leaving = false;    // lives as long as a group runs for it
    bool has_computed = false;  // and waits for groups
    std::uint64_t iterations = 0;
    double computed_at = 0;
    double to_generator_at = 0, from_generator_at = 0;  // when the last message arrives
    std::uint64_t term = 0;                             // whose generator has assigned its group
    // As the generator knows it.
    std::uint64_t runs = 0;
    bool has_left = false;
    std::uint64_t last_group = 0;  // the newest that ran when it left
  };
  struct Event {
    double at = 0;
    std::uint64_t number = 0;
    std::function<void()> happens;
    bool operator<(const Event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  [[nodiscard]] Worker& at(Rank rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Worker& at(Rank rank) const {
    return workers_[static_cast<std::size_t>(rank)];
  }
  void after(double delay, std::function<void()> happens);
  void fault(std::string text) { faults_.push_back(std::move(text)); }

  void begin_iteration(Rank rank);
  void tell(Rank from, std::function<Status()> event);
  void send();
  void take(Rank to, const GroupReport& assigned);
  void try_end(Rank rank);
  [[nodiscard]] bool may_end(Rank rank) const;
  void end_group(Rank rank);
  void die(Rank rank);
  void tell_leave(Rank rank);
  void go(Rank rank);
  void succeed();

  ClusterOptions options_;
  Draws draws_;
  std::unique_ptr<GroupGenerator> generator_;
  Rank home_ = 0;  // where the generator lives
  std::uint64_t term_ = 0;
  std::vector<Worker> workers_;
  std::priority_queue<Event> agenda_;
  double now_ = 0;
  std::uint64_t events_ = 0;
  std::vector<std::string> faults_;
  double longest_wait_ = 0;
  std::uint64_t last_group_ = 0;
};

}  // namespace weft::test
