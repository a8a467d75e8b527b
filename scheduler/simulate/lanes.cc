// lanes: ranks multiplied, then their results joined.
#include "scheduler/simulate/lanes.h"

#include <algorithm>

#include "scheduler/stripes/stripes.h"

namespace weft::simulator {
namespace {

constexpr std::size_t kCacheLine = 64;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

// The longest of equal shares of whole cache lines.
std::size_t stripe_of(std::size_t bytes, int lanes) {
  const std::size_t line_count = (bytes + kCacheLine - 1) / kCacheLine;
  return std::min(bytes, (line_count + at(lanes) - 1) / at(lanes) * kCacheLine);
}

// What is cut: all elements, or each rank's part of a gather.
std::size_t block_of(const OperandBytes& bytes, std::string_view operation) {
  return operation == "gather" ? bytes.block : std::max(bytes.input, bytes.output);
}

// Of the machine with the most ranks.
double lane_gbyte_per_s(const SimulatedJob& job, const SimulateOptions& options) {
  SharedMemory memory = job.cluster.memory;
  if (options.combine_gbyte_per_s > 0) memory.combine_gbyte_per_s = options.combine_gbyte_per_s;
  const auto fullest = std::ranges::max_element(job.cluster.machines, {}, &ClusterMachine::ranks);
  return memory.lane_gbyte_per_s(fullest->ranks, options.lanes);
}

}  // namespace

int lanes_of(const SimulatedJob& job, const SimulateOptions& options) {
  if (options.lanes == 1) return 1;
  const std::string_view operation = job.plan(0).plan.operation;
  if (!is_cut(operation)) return 1;
  return static_cast<int>(stripes_of(block_of(job.bytes, operation), at(options.lanes)));
}

LaneJob::LaneJob(const SimulatedJob& job, const SimulateOptions& options)
    : by_rank_(job),
      options_(options),
      cluster_(job.cluster),
      rails_(job.rails.repeated(options.lanes)) {
  const int lanes = options.lanes;
  for (ClusterMachine& machine : cluster_.machines) {
    machine.first_rank *= lanes;
    machine.ranks *= lanes;
  }
  for (const int seat : job.placement.seat)
    for (int lane = 0; lane < lanes; ++lane) placement_.seat.push_back(seat * lanes + lane);
  options_.combine_gbyte_per_s = lane_gbyte_per_s(job, options);
  options_.stragglers.clear();
  for (Straggler straggler : options.stragglers) {
    straggler.rank *= lanes;
    for (int lane = 0; lane < lanes; ++lane, ++straggler.rank)
      options_.stragglers.push_back(straggler);
  }
}

SimulatedJob LaneJob::job() const {
  const OperandBytes& bytes = by_rank_.bytes;
  const int lanes = options_.lanes;
  return {cluster_,
          placement_,
          rails_,
          by_rank_.ranks * lanes,
          [this](Rank lane) { return plan(lane); },
          {stripe_of(bytes.input, lanes), stripe_of(bytes.output, lanes),
           stripe_of(bytes.block, lanes)}};
}

Planned LaneJob::plan(Rank number) const {
  const int lanes = options_.lanes;
  const int lane = number % lanes;
  Planned planned = by_rank_.plan(number / lanes);
  prefer_rails(planned, lane);
  planned.view.rank = number;
  planned.view.size *= lanes;
  for (std::vector<Rank>* peers : {&planned.view.in, &planned.view.out})
    for (Rank& peer : *peers) peer = peer * lanes + lane;
  return planned;
}

// Plan::rails counts the rails of both machines.
void LaneJob::prefer_rails(Planned& planned, int lane) const {
  const View& view = planned.view;
  std::vector<int>& preferred = planned.plan.rails;
  preferred.resize(view.out.size(), kAnyRail);
  std::vector<int> used, all;
  for (std::size_t edge = 0; edge < view.out.size(); ++edge) {
    if (preferred[edge] != kAnyRail) continue;
    by_rank_.rails.rails_between(view.rank, view.out[edge], used);
    const int own =
        preferred_rail(block_of(by_rank_.bytes, planned.plan.operation) / at(options_.lanes),
                       used.size(), at(lane), at(options_.lanes));
    if (own == kAnyRail) continue;
    by_rank_.rails.rails_of_machines(view.rank, view.out[edge], all);
    const auto found = std::ranges::find(all, used[at(own)]);
    preferred[edge] = static_cast<int>(found - all.begin());
  }
}

namespace {

// Of each `lanes` values in a row, the largest.
std::vector<double> latest(const std::vector<double>& values, int lanes) {
  std::vector<double> latest(values.size() / at(lanes));
  for (std::size_t i = 0; i < values.size(); ++i)
    latest[i / at(lanes)] = std::max(latest[i / at(lanes)], values[i]);
  return latest;
}

}  // namespace

void join_lanes(int lanes, Simulation& simulation) {
  simulation.lanes = lanes;
  simulation.alike /= lanes;
  simulation.finish_us = latest(simulation.finish_us, lanes);
  for (std::size_t rank = 0; rank < simulation.finish_us.size(); ++rank)
    simulation.machine[rank] = simulation.machine[rank * at(lanes)];
  simulation.machine.resize(simulation.finish_us.size());
  for (Link& link : simulation.links) {
    if (link.kind != Link::Kind::rank_memory) continue;
    link.lane = link.number % lanes;
    link.number /= lanes;
  }
  for (Cause& cause : simulation.critical)
    if (cause.rank != kNoRank) cause.rank /= lanes;
  for (Bar& bar : simulation.bars) {
    bar.rank /= lanes;
    if (bar.peer != kNoRank) bar.peer /= lanes;
  }
}

}  // namespace weft::simulator
