// simulate: compile, play, and what came of it.
#include "scheduler/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scheduler/simulate/alike.h"
#include "scheduler/simulate/critical.h"
#include "scheduler/simulate/lanes.h"
#include "scheduler/simulate/play.h"

namespace weft {
namespace {

using simulator::Channel;
using simulator::Links;
using simulator::Message;
using simulator::Play;
using simulator::Programs;

// With more ranks blocks count as equally large. Blocks of six and of seven cache lines would keep
// thousands of ranks from doing anything at one instant, for a difference of a cache line a message.
constexpr int kMostUneven = 256;

Status wrong(std::string text) {
  return {Code::invalid_argument, std::move(text)};
}

Status check(const SimulatedJob& job, const SimulateOptions& options) {
  if (job.ranks < 1 || static_cast<std::size_t>(job.ranks) > job.placement.seat.size()) {
    return wrong(
        fmt::format("{} ranks to simulate, {} are placed", job.ranks, job.placement.seat.size()));
  }
  if (options.piece_bytes == 0) return wrong("a piece has bytes");
  if (options.lanes < 1 || options.lanes > kMostLanes)
    return wrong(fmt::format("{} lanes: expected 1…{}", options.lanes, kMostLanes));
  for (const double number : {options.message_us, options.combine_gbyte_per_s})
    if (!(number >= 0 && std::isfinite(number)))
      return wrong(fmt::format("{} us a message, {} GB/s combined: expected numbers of 0 or more",
                               options.message_us, options.combine_gbyte_per_s));
  std::set<Rank> stragglers;
  for (const Straggler& straggler : options.stragglers) {
    if (!stragglers.insert(straggler.rank).second)
      return wrong(fmt::format("rank {} is a straggler twice", straggler.rank));
    if (straggler.rank < 0 || straggler.rank >= job.ranks)
      return wrong(
          fmt::format("a straggler, rank {}: there are {} ranks", straggler.rank, job.ranks));
    if (!(straggler.delay_us >= 0) || !(straggler.slowdown > 0) ||
        !std::isfinite(straggler.delay_us + straggler.slowdown))
      return wrong(fmt::format("rank {}: late by {} us, slower by {}", straggler.rank,
                               straggler.delay_us, straggler.slowdown));
  }
  return {};
}

void count_phases(const Programs& programs, std::uint64_t times, Simulation& to) {
  for (const Message& message : programs.messages) {
    if (message.phase > to.phases.size()) to.phases.resize(message.phase);
    Phase& phase = to.phases[message.phase - 1];
    phase.begin_us =
        phase.messages == 0 ? message.begin_us : std::min(phase.begin_us, message.begin_us);
    phase.end_us = std::max(phase.end_us, message.arrival_us);
    phase.messages += times;
    phase.bytes += static_cast<double>(message.bytes) * static_cast<double>(times);
  }
}

void take_bars(const Programs& programs, Simulation& to) {
  for (const Message& message : programs.messages) {
    const Channel& channel = programs.channels[message.channel];
    to.bars.push_back({Bar::Kind::message, channel.from, channel.to, message.rail, message.phase,
                       static_cast<std::size_t>(message.bytes), message.begin_us, message.left_us});
  }
  for (Rank rank = 0; rank < programs.ranks(); ++rank) {
    const auto number = static_cast<std::size_t>(rank);
    for (std::uint32_t s = programs.first_step[number]; s < programs.first_step[number + 1]; ++s) {
      const simulator::Step& step = programs.steps[s];
      if (step.kind != simulator::Step::Kind::combine) continue;
      to.bars.push_back({Bar::Kind::combine, rank, kNoRank, -1, 0,
                         static_cast<std::size_t>(step.bytes), step.work_us, step.end_us});
    }
  }
}

// Of a job in which every rank has one lane.
Result<Simulation> run(const SimulatedJob& job, const SimulateOptions& options) {
  simulator::Alike alike = simulator::find_alike(job, options);
  Links links(job, options, alike.ranks);
  const bool equalized = alike.ranks < job.ranks || job.ranks > kMostUneven;
  WEFT_ASSIGN(Programs programs, simulator::compile(job, options, alike.ranks, equalized));
  Play play(job, options, links, programs);
  WEFT_RETURN_IF_ERROR(play.run());

  Simulation to;
  to.alike = alike.ranks;
  to.why = std::move(alike.why);
  for (Rank rank = 0; rank < programs.ranks(); ++rank)
    to.finish_us.push_back(std::max(play.end_us(rank), play.last_release_us(rank)));
  for (Rank rank = 0; rank < programs.ranks(); ++rank)
    to.machine.push_back(job.placement.machine_of(rank, job.cluster));
  const auto last = std::ranges::max_element(to.finish_us);
  to.total_us = *last;
  to.critical =
      simulator::critical_path(play, programs, static_cast<Rank>(last - to.finish_us.begin()));
  const auto times = static_cast<std::uint64_t>(job.ranks / alike.ranks);
  to.messages = programs.messages.size() * times;
  count_phases(programs, times, to);
  if (options.keep_bars) take_bars(programs, to);
  to.links = std::move(links.table());
  return to;
}

}  // namespace

Result<Simulation> simulate(const SimulatedJob& job, const SimulateOptions& options) {
  WEFT_RETURN_IF_ERROR(check(job, options));
  SimulateOptions used = options;
  used.lanes = simulator::lanes_of(job, options);
  if (used.lanes == 1) return run(job, used);
  const simulator::LaneJob by_lane(job, used);
  WEFT_ASSIGN(Simulation to, run(by_lane.job(), by_lane.options()));
  simulator::join_lanes(used.lanes, to);
  return to;
}

namespace {

// Links of one kind on one rail are one reason.
std::string reason_of(const Cause& cause, const Simulation& simulation, const Cluster& cluster) {
  switch (cause.kind) {
    case Cause::Kind::wire:
      return group_name(simulation.links[static_cast<std::size_t>(cause.link)], cluster);
    case Cause::Kind::latency:
      return "latency";
    case Cause::Kind::combining:
      return "combining";
    case Cause::Kind::memory:
      return "reading memory";
    case Cause::Kind::posting:
      return "posting";
    case Cause::Kind::lateness:
      return fmt::format("rank {} is late", cause.rank);
  }
  return "unknown";
}

}  // namespace

std::string explain(const Simulation& simulation, const Cluster& cluster) {
  std::vector<std::pair<std::string, double>> reasons;
  for (const Cause& cause : simulation.critical) {
    std::string reason = reason_of(cause, simulation, cluster);
    const auto found = std::ranges::find(reasons, reason, &std::pair<std::string, double>::first);
    if (found == reasons.end())
      reasons.emplace_back(std::move(reason), cause.us);
    else
      found->second += cause.us;
  }
  std::ranges::stable_sort(reasons, std::greater{}, &std::pair<std::string, double>::second);
  std::string text;
  for (const auto& [reason, us] : reasons) {
    const double percent = 100 * us / simulation.total_us;
    if (percent < 1) break;  // no reason
    text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", reason, percent);
  }
  return text;
}

double lane_share(const Simulation& simulation) {
  double us = 0;
  for (const Cause& cause : simulation.critical) {
    if (cause.kind == Cause::Kind::combining || cause.kind == Cause::Kind::memory) us += cause.us;
  }
  return simulation.total_us > 0 ? us / simulation.total_us : 0;
}

const Link* busiest(const Simulation& simulation) {
  const auto use = [](const Link& link) {
    return link.bytes == 0 ? 0 : link.bytes / link.bytes_per_us;  // 0 of none is no number
  };
  const auto most = std::ranges::max_element(simulation.links, {}, use);
  return most == simulation.links.end() || most->bytes == 0 ? nullptr : &*most;
}

}  // namespace weft
