// A turn of the interface: what has come, what has ended, and what leaves now.
#include <algorithm>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

// After so many turns in a row that moved something, releases are reported all the same.
constexpr std::uint32_t kBusyTurns = 16;
// After so many turns in a row that moved nothing, releases are reported that no sender waits for
// yet.
constexpr std::uint32_t kIdleTurns = 16;
// Turns between two looks for events of the device, which cost a system call each.
constexpr std::uint32_t kTurnsPerLook = 1024;

}  // namespace

// A turn also counts as news if the peer may have written without a message, or if events of the
// device were looked at: both can change what endpoints show.
bool IbInterface::progress() {
  const bool looks = ++turns_ % kTurnsPerLook == 0;
  bool news = looks || !pumping_.empty() || !starved_.empty() || !connecting_.empty();
  if (!pumping_.empty()) pump_all();
  std::size_t arrivals = take_messages();
  const std::size_t ends = take_completions();
  while (!early_arrivals_.empty())
    // No event would announce these arrivals again, so all of them are taken in this turn.
    arrivals += take_messages();
  const std::size_t moved = arrivals + ends;
  if (datagrams_.has_ended()) [[unlikely]]
    revive_datagrams(arrivals, ends);
  if (routes_->has_answers()) [[unlikely]]
    routes_->take_answers();
  if (datagrams_.is_idle()) routes_->drop_old();
  if (!starved_.empty()) {
    std::erase_if(starved_, [this](IbEndpoint* endpoint) {
      if (endpoint->starved()) return false;
      pump_later(*endpoint);
      return true;
    });
  }
  if (!blocked_.empty())
    std::erase_if(blocked_, [](const IbEndpoint* endpoint) { return !endpoint->waits_to_go(); });
  if (!connecting_.empty()) send_due_greetings();
  if (looks) look_for_events();
  if (moved != 0) idle_turns_ = 0;
  if (moved != 0 && ++busy_turns_ < kBusyTurns && !urgent_) {
    pump_all();
    return true;
  }
  busy_turns_ = 0;
  const bool due = urgent_ || armed_ || moved != 0 || ++idle_turns_ >= kIdleTurns;
  if (due && !reporters_.empty()) report_releases();
  news |= !pumping_.empty();  // what leaves now may fail
  pump_all();
  return news || moved != 0;
}

void IbInterface::pump_later(IbEndpoint& endpoint) {
  if (endpoint.enlist()) pumping_.push_back(&endpoint);
}

// An endpoint that asks for more while it is served is served again at the next turn. The two lists
// swap, so that both keep their memory.
void IbInterface::pump_all() {
  served_.swap(pumping_);
  for (IbEndpoint* endpoint : served_) {
    endpoint->delist();
    endpoint->pump();
    if (!endpoint->waits_to_go()) continue;
    // lacks_window() does not look at what the peer has written since. If it did, and the window
    // had come back just now, the endpoint would be listed as waiting for a completion, and none
    // may come.
    std::vector<IbEndpoint*>& waiting = endpoint->lacks_window() ? starved_ : blocked_;
    if (std::ranges::find(waiting, endpoint) == waiting.end()) waiting.push_back(endpoint);
    if (!has_completions(1)) pump_later(*endpoint);
  }
  served_.clear();
}

void IbInterface::report_releases() {
  urgent_ = false;
  idle_turns_ = 0;
  for (IbEndpoint* endpoint : reporters_) endpoint->report_releases();
  reporters_.clear();
}

bool IbInterface::flushed() const {
  return pumping_.empty() && starved_.empty() && blocked_.empty() && reporters_.empty() &&
         connecting_.empty();
}

}  // namespace weft::ib
