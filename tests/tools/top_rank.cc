// A rank of a job to look at: steps of own work, which takes a time and no core, and an all-reduce, until a file is
// there.
//
//   weft run -n 4 -- top_rank STOP_FILE BYTES OWN_MS [SLOW_RANK SLOW_MS]
//
// The work of SLOW_RANK takes SLOW_MS. Rank 0 prints how long a step took, in microseconds.
#include <poll.h>
#include <unistd.h>
#include <weft/weft.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

int fail(const weft::Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

int run(weft::Context& job, const char* stop_file, std::size_t count, int own_ms) {
  std::vector<float> values(count), sums(count);
  const auto begin = Clock::now();
  double steps = 0;
  while (sums.front() == 0) {
    (void)::poll(nullptr, 0, own_ms);
    if (job.rank() == 0 && ::access(stop_file, F_OK) == 0) values.front() = 1;
    const weft::Status status =
        job.allreduce(weft::in(values.data(), count), weft::out(sums.data(), count));
    if (!status.ok()) return fail(status);
    ++steps;
  }
  const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
  if (job.rank() == 0) std::printf("%.0f\n", took.count() / steps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto context = weft::Context::from_environment();
  if (!context.ok()) return fail(context.status());
  weft::Context& job = **context;
  const bool is_slow = argc > 5 && job.rank() == std::atoi(argv[4]);
  const std::size_t count = std::strtoull(argv[2], nullptr, 10) / sizeof(float);
  return run(job, argv[1], count, std::atoi(is_slow ? argv[5] : argv[3]));
}
