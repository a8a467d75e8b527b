// Workers that ask the generator of groups, all in each round, and are done with what it assigns.
#include <time.h>

#include <numeric>
#include <utility>
#include <vector>

#include "scheduler/partial/partial.h"
#include "tools/weft/predict/strategies.h"

namespace weft {
namespace {

double processor_us() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

class Round {
 public:
  Round(GroupGenerator& generator, int ranks)
      : generator_(generator), runs_(static_cast<std::size_t>(ranks)), asked_(runs_.size()) {}

  void run(const std::vector<Rank>& order) {
    now_us_ += kComputedUs;
    for (const Rank rank : order) {
      asked_[static_cast<std::size_t>(rank)] = true;
      must(generator_.request(rank, kComputedUs, now_us_));
      take();
      if (runs_[static_cast<std::size_t>(rank)].group != 0) ready_.push_back(rank);
    }
    while (!ready_.empty()) {
      const Rank rank = ready_.back();
      ready_.pop_back();
      const auto place = static_cast<std::size_t>(rank);
      if (runs_[place].group == 0 || !asked_[place]) continue;
      const GroupAssignment done = std::exchange(runs_[place], {});
      if (done.answers) asked_[place] = false;
      must(generator_.done(rank, done.group));
      take();
    }
  }

 private:
  static constexpr std::uint64_t kComputedUs = 20'000;

  static void must(const Status& status) { invariant(status.ok(), "a worker asks in its turn"); }
  void take() {
    for (const GroupAssignment& each : generator_.assignments()) {
      const auto place = static_cast<std::size_t>(each.to);
      runs_[place] = each;
      if (asked_[place]) ready_.push_back(each.to);
    }
  }

  GroupGenerator& generator_;
  std::uint64_t now_us_ = 0;
  std::vector<GroupAssignment> runs_;  // by rank; group 0: none
  std::vector<bool> asked_;
  std::vector<Rank> ready_;
};

}  // namespace

double generator_us(int ranks, int per_machine, std::uint64_t seed, int rounds) {
  GroupOptions options{.size = ranks, .seed = seed};
  std::vector<Rank> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  for (const Rank rank : order) options.machine.push_back(rank / per_machine);
  GroupGenerator generator = GroupGenerator::open(options).value();
  Round round(generator, ranks);
  Draws draws(seed);
  double spent_us = 0;
  for (int i = 0; i < rounds; ++i) {
    draws.shuffle(std::span(order));
    const double begin_us = processor_us();
    round.run(order);
    spent_us += processor_us() - begin_us;
  }
  return spent_us / rounds / ranks;
}

}  // namespace weft
