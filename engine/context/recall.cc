// What a context tells about its operations: to the flight recorder's dump, and to the metrics of rails.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/context/core.h"
#include "engine/live/live.h"
#include "verbs/base/base.h"

namespace weft {
namespace {

std::string_view name(Execution::Missing::What what) {
  switch (what) {
    case Execution::Missing::What::data:
      return "data";
    case Execution::Missing::What::credit:
      return "arrival";
    case Execution::Missing::What::read:
      return "read";
  }
  return "data";
}

std::vector<FlightWait> waits_of(LaneSlot& slot) {
  std::vector<Execution::Missing> missing;
  slot.execution.missing(missing);
  std::vector<FlightWait> waits;
  for (const Execution::Missing& each : missing)
    waits.push_back({each.connection->rank, name(each.what)});
  return waits;
}

// "ucx:eth0" of "ucx:eth0; more".
std::string rail_of(const Endpoint& endpoint) {
  const std::string text = endpoint.describe();
  return text.substr(0, text.find_first_of(" ;("));
}

void add(const PathReport& report, std::map<std::string, FlightRail>& rails) {
  FlightRail& rail = rails[report.rail];
  rail.rail = report.rail;
  rail.bytes += report.bytes;
  rail.rate = std::max(rail.rate, report.rate);
  rail.best = std::max(rail.best, report.best);
  rail.losses += report.losses;
  ++rail.peers;
  if (!report.lives) ++rail.lost;
}

void add(const Peers& peers, std::map<std::string, FlightRail>& rails) {
  for (const auto& [rank, connection] : peers.all()) {
    const Endpoint& endpoint = *connection->endpoint;
    const std::vector<PathReport> reports = endpoint.path_reports();
    for (const PathReport& report : reports) add(report, rails);
    if (reports.empty())
      add({.rail = rail_of(endpoint),
           .bytes = connection->sent_bytes,
           .lives = endpoint.failure().ok()},
          rails);
  }
}

}  // namespace

void Context::Core::recall(FlightText& to) {
  const Lane::Hold hold(lane_);
  recall(to, lane_.failure());
}

void Context::Core::recall(FlightText& to, const Status& failure) {
  const std::string& prefix = rank_map_.prefix();
  FlightContext about;
  about.context = context_name();
  about.job = fmt::format("{:016x}", fnv1a64(live_job(config_.job_key)));
  about.host = this_machine(config_.host).name;
  about.rank = config_.rank;
  about.rank_in_job = rank_map_.incarnation(config_.rank).rank;
  about.size = config_.size;
  if (!prefix.empty()) {
    for (Rank rank = 0; rank < config_.size; ++rank)
      about.members.push_back(rank_map_.incarnation(rank).rank);
  }
  about.next = lane_.admission().number_of_next_call();
  if (!failure.ok() && failure.code() != Code::closed) about.failure = failure.to_string();
  to.context(about);
  for (const FlightRail& rail : rails()) to.rail(rail);
  std::uint64_t newest = 0;
  for (const FlightRecord& record : lane_.flight().latest(to.most())) {
    if (record.state != FlightState::runs) to.operation(record);
    if (!record.is_of_some_ranks) newest = std::max(newest, record.number);
  }
  // What repeats an earlier call, and was over at once, has no record.
  if (const LaneSlot* last = lane_.last();
      last != nullptr && !last->is_running() && !last->is_of_some_ranks && last->number > newest) {
    FlightRecord record;
    fill_record(last->bound_call.call, false, record);
    record.number = last->number;
    record.state = FlightState::done;
    to.operation(record);
  }
  for (LaneSlot* slot : lane_.running()) {
    FlightRecord record;
    if (const FlightRecord* kept = lane_.flight().at(slot->flight)) {
      record = *kept;
    } else {
      fill_record(slot->bound_call.call, slot->is_of_some_ranks, record);
      record.number = slot->number;
    }
    to.operation(record, waits_of(*slot));
  }
  lane_.admission().for_each_waiting([&to](const Operation& operation) {
    FlightRecord record;
    const Call& call = operation.bound_call.call;
    fill_record(call, is_of_some_ranks(call.collective), record);
    to.queued(record);
  });
  lane_.recall_hook(to);
}

void Context::Core::write_flight(const Status& failure) {
  FlightText text;
  recall(text, failure);
  if (const Status status =
          weft::write_flight(config_.flight, config_.rank, std::move(text).text());
      !status.ok())
    log(LogLevel::error, status.to_string());
}

std::vector<FlightRail> Context::Core::rails() {
  std::map<std::string, FlightRail> rails;
  add(peers_, rails);
  for (const auto& side : sides_.all()) {
    const Lane::Hold hold(side->lane());
    add(side->peers(), rails);
  }
  std::vector<FlightRail> all;
  for (auto& [name, rail] : rails) all.push_back(std::move(rail));
  return all;
}

void Context::Core::collect_rails(Metrics& to) {
  const Lane::Hold hold(lane_);
  for (const FlightRail& rail : rails()) {
    const std::string labels = metric_labels() + "," + metric_label("rail", rail.rail);
    to.counter("weft_rail_bytes_total", "Payload that left over a rail.", labels, rail.bytes);
    if (rail.rate != 0) {
      to.gauge("weft_rail_bytes_per_second", "What a rail carries, as measured lately.", labels,
               static_cast<std::uint64_t>(rail.rate));
      to.gauge("weft_rail_usual_bytes_per_second", "What a rail has carried for long.", labels,
               static_cast<std::uint64_t>(rail.best));
    }
    to.counter("weft_rail_losses_total", "How often a path over a rail was given up.", labels,
               rail.losses);
    to.gauge("weft_rail_lost_paths", "Paths over a rail that do not work now.", labels,
             static_cast<std::uint64_t>(rail.lost));
  }
  to.counter("weft_plans_for_rails_total",
             "How often the ranks agreed on plans for the rails that are left.", metric_labels(),
             live_rails_.changes());
  constexpr std::int64_t kNsPerMs = 1'000'000;
  std::map<Rank, std::int64_t> waits;
  for (LaneSlot* slot : lane_.running()) {
    const FlightRecord* const record = lane_.flight().at(slot->flight);
    if (record == nullptr) continue;
    for (const FlightWait& wait : waits_of(*slot))
      waits[wait.rank] = std::max(waits[wait.rank], now_ns() - record->began_ns);
  }
  for (const auto& [rank, ns] : waits)
    to.gauge("weft_waiting_milliseconds", "How long this rank has been waiting for another one.",
             metric_labels() + "," + metric_label("peer", std::to_string(rank)),
             static_cast<std::uint64_t>(ns / kNsPerMs));
}

}  // namespace weft
