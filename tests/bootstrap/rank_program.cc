// A rank for the tests of `weft run`: joins the job as any Weft program does, then behaves as its
// first argument says.
//   meet          a fence with all ranks, and one line on each stream
//   die RANK      after the fence that rank is killed; the others wait for the event and print it
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

int die(Store& store, Rank victim, Deadline deadline) {
  if (const Status status = store.fence(deadline); !status.ok()) return report(status);
  if (store.rank() == victim) ::raise(SIGKILL);
  pollfd one{store.event_fd(), POLLIN, 0};
  if (::poll(&one, 1, deadline.left_ms()) != 1) return 4;
  std::printf("rank %d died\n", store.next_event()->rank);
  return 0;
}

int run(const std::string& what, Rank rank_argument) {
  const Result<Config> config = Config::from_environment();
  if (!config.ok()) return report(config.status());
  if (what == "absent" && config->rank == rank_argument) return 5;
  const auto store = open_store(*config);
  if (!store.ok()) return report(store.status());
  const Deadline deadline = Deadline::after_ms(config->deadline_ms);
  return what == "die" ? die(**store, rank_argument, deadline) : meet(**store, deadline);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::run(argc > 1 ? argv[1] : "meet", argc > 2 ? std::atoi(argv[2]) : weft::kNoRank);
}
