// A rank for the tests of `weft run`: joins the job as any Weft program does, then behaves as its
// first argument says.
//   meet          a fence with all ranks, and one line on each stream
//   exchange      what a Store promises between ranks that all live: one line when it holds
//   late          rank 0 waits for what the others put and a fence they enter too late; prints the
//                 errors, then meets them
//   die RANK      after the fence that rank is killed; the others wait for the event and print it
//   again         leaves the job and joins it anew, three times; one line for each
//   absent RANK   that rank exits with status 5 without joining; the others meet it in a fence
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/bootstrap/bootstrap.h"

namespace weft {
namespace {

int report(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 3;
}

int meet(Store& store, Deadline deadline) {
  if (const Status status = store.fence(deadline); !status.ok()) return report(status);
  std::printf("met %d others\n", store.size() - 1);
  std::fflush(stdout);
  std::fprintf(stderr, "no error\n");
  const Status left = store.goodbye(deadline);
  return left.ok() ? 0 : report(left);
}

// The value that `rank` puts in round `round`: rounds differ in length, the last is the longest
// allowed.
std::string value_of(Rank rank, int round) {
  const std::size_t length = round == 3 ? kMaxStoreValue : static_cast<std::size_t>(round) * 100;
  return std::string(length, static_cast<char>('a' + (rank + round) % 26));
}

Status exchange_round(Store& store, int round, Deadline deadline) {
  const std::string key = "pmix round " + std::to_string(round);
  WEFT_RETURN_IF_ERROR(
      store.put(key + " of " + std::to_string(store.rank()), value_of(store.rank(), round)));
  for (Rank other = 0; other < store.size(); ++other) {
    WEFT_ASSIGN(const std::string value,
                store.get_from(other, key + " of " + std::to_string(other), deadline));
    if (value != value_of(other, round)) {
      return Status(Code::mismatch, key + ": not what was put", other);
    }
  }
  return {};
}

// Keys are put one after another without a fence between, so each round finds what the last get
// could not yet see. They begin like PMIx's own, which must not matter.
int exchange(Store& store, Deadline deadline) {
  for (int round = 0; round < 4; ++round) {
    if (Status status = exchange_round(store, round, deadline); !status.ok()) return report(status);
  }
  for (int count = 0; count < 20; ++count) {
    if (Status status = store.fence(deadline); !status.ok()) return report(status);
  }
  const std::string own = "pmix round 1 of " + std::to_string(store.rank());
  const bool once = store.put(own, value_of(store.rank(), 1)).ok() &&
                    store.put(own, "other bytes").code() == Code::mismatch;
  if (!once) return 4;
  std::printf("exchanged with %d others\n", store.size() - 1);
  const Status left = store.goodbye(deadline);
  return left.ok() ? 0 : report(left);
}

int late(Store& store, Deadline deadline) {
  if (store.rank() == 0) {
    const Status get = store.get_from(1, "late", Deadline::after_ms(50)).status();
    const Status fence = store.fence(Deadline::after_ms(50));
    std::printf("%s\n%s\n", get.to_string().c_str(), fence.to_string().c_str());
    if (Status put = store.put("go on", ""); !put.ok()) return report(put);
  } else {
    const Status go = store.get_from(0, "go on", deadline).status();
    if (!go.ok()) return report(go);
    if (Status put = store.put("late", "value"); !put.ok()) return report(put);
  }
  const Result<std::string> value = store.get_from(1, "late", deadline);
  if (!value.ok()) return report(value.status());
  return meet(store, deadline);
}

int die(Store& store, Rank victim, Deadline deadline) {
  if (const Status status = store.fence(deadline); !status.ok()) return report(status);
  if (store.rank() == victim) ::raise(SIGKILL);
  pollfd one{store.event_fd(), POLLIN, 0};
  if (::poll(&one, 1, deadline.left_ms()) != 1) return 4;
  const std::optional<StoreEvent> event = store.next_event();
  std::printf("rank %d died\n", event->rank);
  const Status fence = store.fence(deadline);
  const Status get = store.get_from(victim, "never put", deadline).status();
  if (fence.code() != Code::peer_died || get.code() != Code::peer_died) return report(fence);
  return event->kind == StoreEvent::Kind::died ? 0 : 6;
}

// What a program does that ends Weft and starts it again.
int again(Config& config, Deadline deadline) {
  for (int round = 0; round < 3; ++round) {
    Result<std::shared_ptr<Store>> store = open_store(config);
    if (!store.ok()) return report(store.status());
    // Over PMIx a second context of the process shares the seat.
    if (config.launcher == Launcher::pmix && open_store(config).value() != *store) return 7;
    if (Status status = exchange_round(**store, round, deadline); !status.ok())
      return report(status);
    if (Status fence = (*store)->fence(deadline); !fence.ok()) return report(fence);
    if (Status left = (*store)->goodbye(deadline); !left.ok()) return report(left);
    std::printf("round %d\n", round);
    std::fflush(stdout);
  }
  return 0;
}

int run(const std::string& what, Rank rank_argument) {
  Result<Config> config = Config::from_environment();
  if (!config.ok()) return report(config.status());
  if (what == "absent" && config->rank == rank_argument) return 5;
  if (what == "again") return again(*config, Deadline::after_ms(config->deadline_ms));
  const auto store = open_store(*config);
  if (!store.ok()) return report(store.status());
  const Deadline deadline = Deadline::after_ms(config->deadline_ms);
  if (what == "exchange") return exchange(**store, deadline);
  if (what == "late") return late(**store, deadline);
  return what == "die" ? die(**store, rank_argument, deadline) : meet(**store, deadline);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::run(argc > 1 ? argv[1] : "meet", argc > 2 ? std::atoi(argv[2]) : weft::kNoRank);
}
