// A turn of the interface: UCX moves on, and what is due leaves.
#include <algorithm>
#include <utility>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// The most rounds of UCX's progress in one turn, because a lane has other interfaces, too.
constexpr int kRounds = 16;
// After so many turns in a row that moved something, a turn also looks at due reports and at paths
// that broke.
constexpr std::uint32_t kBusyCalls = 16;
// After so many turns in a row that moved nothing, releases are reported that no sender waits for
// yet.
constexpr std::uint32_t kIdleCalls = 16;

}  // namespace

// A turn stops asking UCX once something has arrived, so that the first of many notices does not
// wait for the rest.
bool UcxInterface::progress() {
  const bool flushes = !filled_.empty();
  if (flushes) flush_batches();
  const std::uint64_t before = std::exchange(arrivals_told_, arrivals_);
  // Closing an endpoint drives UCX, too (drain()). What arrived then is news of this turn.
  const bool came = before != arrivals_;
  int rounds = 0;
  while (rounds < kRounds && arrivals_ == arrivals_told_ && library_.worker_progress(worker_) != 0)
    ++rounds;
  arrivals_told_ = arrivals_;
  if (!unanswered_.empty()) answer_strangers();
  const bool greets = !greeters_.empty() && greet_peers();
  if (!stalled_.empty()) proceed_stalled();
  if (rounds != 0) idle_calls_ = 0;
  if (rounds != 0 && ++busy_calls_ < kBusyCalls && !urgent_) return true;
  busy_calls_ = 0;
  const bool due = urgent_ || armed_ || ++idle_calls_ >= kIdleCalls;
  if (due && !reporters_.empty()) report_releases();
  const bool fails = !failing_.empty();
  if (fails) fail_broken();
  return rounds != 0 || came || flushes || fails || greets;
}

void UcxInterface::proceed_stalled() {
  for (UcxEndpoint* endpoint : stalled_) endpoint->target().proceed();
  std::erase_if(stalled_,
                [](UcxEndpoint* endpoint) { return !endpoint->target().has_waiting_work(); });
}

void UcxInterface::flush_batches() {
  std::swap(filled_, flushing_);
  for (UcxEndpoint* endpoint : flushing_) endpoint->sender().flush();
  flushing_.clear();
  std::erase_if(reporters_,
                [](UcxEndpoint* endpoint) { return !endpoint->receiver().owes_reports(); });
}

void UcxInterface::report_releases() {
  urgent_ = false;
  idle_calls_ = 0;
  std::erase_if(reporters_,
                [](UcxEndpoint* endpoint) { return endpoint->receiver().report_releases(); });
  flush_batches();
}

bool UcxInterface::greet_peers() {
  return std::erase_if(greeters_, [](UcxEndpoint* endpoint) {
           endpoint->greet();
           return !endpoint->is_held();
         }) != 0;
}

void UcxInterface::fail_broken() {
  for (UcxEndpoint* endpoint : std::exchange(failing_, {})) endpoint->fail();
}

}  // namespace weft::ucx
