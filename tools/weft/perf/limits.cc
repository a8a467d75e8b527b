// The machine alone. The context that is there does nothing: it has made the shared heap as the
// settings say.
#include <fmt/format.h>

#include "engine/context/context.h"
#include "tools/weft/common/bytes.h"
#include "tools/weft/perf/contenders.h"
#include "tools/weft/perf/measure.h"
#include "tools/weft/perf/perf.h"

namespace weft {
namespace {

void print_figures() {
  const CorePair cores = first_cores();
  fmt::print("cache line, one way     {:8.0f} ns\n", ping_pong_ns(cores));
  fmt::print("sched_yield hand-over   {:8.2f} us\n", yield_us(cores.first));
  fmt::print("futex wake across cores {:8.1f} us\n", futex_wake_us(cores));
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{16} << 20}) {
    fmt::print("memcpy, {:>3}             {:8.1f} GB/s\n", bytes_text(bytes), memcpy_gbps(bytes));
    const Result<double> rate = readv_gbps(bytes);
    if (rate.ok()) {
      fmt::print("process_vm_readv, {:>3}   {:8.1f} GB/s\n", bytes_text(bytes), *rate);
    } else {
      fmt::print("process_vm_readv, {:>3}   {}\n", bytes_text(bytes), rate.status().text());
    }
  }
}

Status print_floor(const PerfOptions& options, std::size_t bytes, Seat& seat) {
  const std::size_t count = options.count(bytes);
  WEFT_ASSIGN(const Tensors tensors,
              Tensors::make(seat, options.type, count, count, options.foreign()));
  std::string why;
  WEFT_ASSIGN(const bool readable, seat.can_read(tensors.inputs, why));
  if (!readable) {
    if (seat.leads())
      fmt::print("{:>6} {:>12} {:>12} {:>9}  {}\n", bytes_text(bytes), "-", "-", "-", why);
    return {};
  }
  FloorCalls cached(options, false, seat, tensors);
  FloorCalls streaming(options, true, seat, tensors);
  std::vector<Contender> contenders{{cached.subject(), nullptr, false, {}}};
  const bool streams = bytes >= kStreamingFrom;
  if (streams) contenders.push_back({streaming.subject(), nullptr, false, {}});
  const Contest contest{options.collective, bytes, options.asked.seconds, options.asked.in_process};
  WEFT_ASSIGN(const std::vector<Score> scores, measure(contest, contenders, seat));
  if (!seat.leads()) return {};
  std::string line = fmt::format("{:>6}", bytes_text(bytes));
  double best = median(scores[0].laps_us);
  for (const Score& score : scores) {
    best = std::min(best, median(score.laps_us));
    line += fmt::format(" {:>12.2f}", median(score.laps_us));
  }
  fmt::print("{}{} {:>9.2f}\n", line, streams ? "" : fmt::format("{:>13}", "-"),
             best > 0 ? static_cast<double>(bytes) / best / 1e3 : 0);
  std::fflush(stdout);
  return {};
}

Status print_all(const PerfOptions& options, Seat& seat) {
  if (seat.leads()) {
    print_figures();
    fmt::print("\nfloor of {} over {}, {} ranks on {} cores, {}, {} memory\n",
               name(options.collective), options.asked.graph, seat.size(), core_count(),
               options.asked.type, options.asked.memory);
    fmt::print("{:>6} {:>12} {:>12} {:>9}\n", "bytes", "cached us", "streaming us", "GB/s");
    std::fflush(stdout);
  }
  for (const std::size_t bytes : options.sizes) {
    WEFT_RETURN_IF_ERROR(print_floor(options, bytes, seat));
  }
  return {};
}

}  // namespace

Status perf_limits(const PerfOptions& options, const Config& config,
                   const std::shared_ptr<Store>& store) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_ASSIGN(const std::unique_ptr<Seat> seat, Seat::take(*store));
  Status status = print_all(options, *seat);
  if (!status.ok()) seat->give_up();
  return status;
}

}  // namespace weft
