// Jobs whose ranks go and come back at steps that a seed draws, while events of the store reach each rank late. In the
// end all that are there are in the same step.
#include <fmt/core.h>

#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "engine/bootstrap/bootstrap.h"
#include "tests/base/sanitized.h"
#include "tests/context/job.h"
#include "tests/context/store_of_events.h"

namespace weft {
namespace {

constexpr const char* kJobKey = "the key of a job of a seed";
constexpr std::int64_t kSteps = 6;

// A store whose events arrive some looks later, in their order.
class SlowEvents final : public StoreOfEvents {
 public:
  SlowEvents(std::shared_ptr<Store> store, std::uint64_t seed)
      : StoreOfEvents(std::move(store)), random_(seed) {}
  [[nodiscard]] std::optional<StoreEvent> next_event() override {
    const std::lock_guard lock(mutex_);
    if (!next_) {
      next_ = store_->next_event();
      looks_ = random_() % 2 == 0 ? 0 : random_() % 4;
    }
    if (!next_ || looks_-- > 0) return std::nullopt;
    return std::exchange(next_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::optional<StoreEvent> next_;
  std::uint64_t looks_ = 0;
};

// What becomes of one rank.
struct Fate {
  std::int64_t goes_before = kSteps;  // the step; kSteps: it stays
  bool returns = false;
  std::uint64_t pauses = 0;  // before each step
};

class SeededJob {
 public:
  explicit SeededJob(std::uint64_t seed) : seed_(seed) {
    std::mt19937_64 random(seed);
    fates_.resize(3 + random() % 3);
    // One that stays keeps the state.
    for (std::size_t rank = 0; rank < fates_.size(); ++rank) {
      Fate& fate = fates_[rank];
      fate.pauses = random() % 3 == 0 ? random() % 300 : 0;
      if (random() % 2 == 0 || rank == seed % fates_.size()) continue;
      fate.goes_before = static_cast<std::int64_t>(random() % kSteps);
      fate.returns = random() % 4 != 0;
    }
  }

  // What went wrong.
  std::vector<std::string> run() {
    RendezvousOptions options;
    options.size = size();
    options.job_key = kJobKey;
    const auto server = RendezvousServer::start(options).value();
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < size(); ++rank) {
      threads.emplace_back([this, rank, address = server->address()] {
        const Fate& fate = fates_[static_cast<std::size_t>(rank)];
        live(rank, address, fate.goes_before);
        if (fate.returns) live(rank, address, kSteps);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return faults_;
  }

 private:
  [[nodiscard]] int size() const { return static_cast<int>(fates_.size()); }

  // One process of the rank. Its end without goodbye is a death.
  void live(Rank rank, const Address& address, std::int64_t until) {
    Config config = test_config();
    config.on_death = OnDeath::skip;
    auto joined =
        connect_store({address, rank, size(), kJobKey, 20'000, true}, Deadline::after_ms(20'000));
    if (!joined.ok()) return fault(rank, "connect_store", joined.status());
    const auto seed = seed_ * 16 + static_cast<std::uint64_t>(rank);
    const std::shared_ptr<Store> store = std::make_shared<SlowEvents>(*std::move(joined), seed);
    auto context = Context::create(config, store);
    if (!context.ok()) return fault(rank, "create", context.status());
    std::int64_t step = 0;
    while (step < until && take_step(**context, step))
      for (std::uint64_t k = 0; k < fates_[static_cast<std::size_t>(rank)].pauses; ++k)
        std::this_thread::yield();
    if (step == kSteps) (void)store->goodbye(Deadline::after_ms(10'000));
  }

  // An operation that all were in, or one that ended by rule on ranks that were behind.
  static bool is_fine(const Status& status) {
    return status.ok() || status.code() == Code::peer_died;
  }

  bool take_step(Context& context, std::int64_t& step) {
    const Rank rank = context.rank();
    std::int64_t before = step;
    const Result<std::vector<Rank>> let_in = context.admit(std::vector<Output>{out(&step, 1)});
    // Who comes back when all others have ended is told so.
    if (!let_in.ok() && before == 0 && let_in.status().code() == Code::unavailable) return false;
    if (!let_in.ok()) return fault(rank, "admit", let_in.status()), false;
    const double x = rank;
    double y = -1;
    const Status mixed = context.neighbor_allreduce(in(&x, 1), out(&y, 1));
    if (!is_fine(mixed)) return fault(rank, "neighbor_allreduce", mixed), false;
    if (mixed.ok() && (y < 0 || y >= size())) fault(rank, fmt::format("an average of {}", y), {});
    const std::vector<std::int64_t> mine = {step, -step};
    std::vector<std::int64_t> most(2);
    const Status same = context.allreduce(in(mine.data(), 2), out(most.data(), 2), ReduceOp::max);
    if (!is_fine(same)) return fault(rank, "allreduce", same), false;
    if (same.ok() && most[0] != -most[1])
      fault(rank, fmt::format("steps {} to {}", -most[1], most[0]), {});
    // It ends well only where all were in it.
    const int one = 1;
    int all = 0;
    const Status whole = context.run({.collective = Collective::allreduce,
                                      .input = in(&one, 1),
                                      .output = out(&all, 1),
                                      .op = ReduceOp::sum,
                                      .needs_all = true});
    if (!is_fine(whole)) return fault(rank, "allreduce of all", whole), false;
    if (whole.ok() && all != size()) fault(rank, fmt::format("{} ranks instead of all", all), {});
    ++step;
    return true;
  }

  void fault(Rank rank, const std::string& where, const Status& status) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fmt::format("rank {}, {}: {}", rank, where, status.to_string()));
  }

  const std::uint64_t seed_;
  std::vector<Fate> fates_;
  std::mutex mutex_;
  std::vector<std::string> faults_;
};

TEST(HealingSeeds, ThoseThatAreThereAreInOneStep) {
  for (std::uint64_t seed = 1; seed <= seeds(4); ++seed) {
    for (const std::string& text : SeededJob(seed).run())
      ADD_FAILURE() << "seed " << seed << ": " << text;
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace weft
