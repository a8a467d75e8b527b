// weft perf idle: what an engine costs that nobody uses. Context open, peers connected, no
// operation. Connecting does not count: further interfaces are connected behind the first
// operation, so what is measured begins when the engine has come to rest.
#include <fmt/format.h>
#include <time.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/context/context.h"
#include "tools/weft/common/save.h"
#include "tools/weft/perf/perf.h"
#include "tools/weft/perf/seat.h"

namespace weft {
namespace {

// This process's share of one core while it sleeps.
double share_asleep(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  timespec left{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  const std::int64_t cpu = process_cpu_ns();
  const std::int64_t begin = now_ns();
  while (nanosleep(&left, &left) != 0) continue;
  return static_cast<double>(process_cpu_ns() - cpu) / static_cast<double>(now_ns() - begin);
}

// Returns when a while went by in which next to nothing was done, or after ten seconds: an engine
// that never rests is measured as it is.
void come_to_rest() {
  constexpr double kWhile = 0.5;  // seconds
  constexpr double kNextToNothing = 0.01;
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i)
    if (share_asleep(kWhile) < kNextToNothing) return;
}

Status print(const PerfOptions& options, double share, Rows& rows) {
  const std::string text =
      fmt::format("an idle engine uses at most {:.3f}% of a core ({} ranks, {} s)\n", share * 100,
                  options.asked.ranks, options.asked.seconds);
  const nlohmann::ordered_json object{{"op", "idle"},
                                      {"ranks", options.asked.ranks},
                                      {"seconds", options.asked.seconds},
                                      {"core_share", share}};
  WEFT_RETURN_IF_ERROR(rows.row(text, object.dump()));
  return rows.close();
}

}  // namespace

Status perf_idle(const PerfOptions& options, const Config& config,
                 const std::shared_ptr<Store>& store) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_ASSIGN(const std::unique_ptr<Seat> seat, Seat::take(*store));
  Rows rows;
  if (seat->leads()) {
    WEFT_ASSIGN(rows, Rows::open(options.asked.json));
  }
  WEFT_RETURN_IF_ERROR(context->set_graph(options.graph));
  const float x = 1;
  float y = 0;
  WEFT_RETURN_IF_ERROR(context->neighbor_allreduce(in(&x, 1), out(&y, 1)));
  come_to_rest();
  WEFT_RETURN_IF_ERROR(seat->gather("at rest").status());
  const double own = share_asleep(options.asked.seconds);
  WEFT_ASSIGN(const std::vector<std::string> shares, seat->gather(std::to_string(own)));
  if (!seat->leads()) return {};
  double most = 0;
  for (const std::string& share : shares)
    most = std::max(most, std::strtod(share.c_str(), nullptr));
  return print(options, most, rows);
}

}  // namespace weft
