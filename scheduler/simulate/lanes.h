// lanes: a job whose ranks have several lanes, as a job in which each lane is a rank. Internal to the
// module.
//
// Lane k of rank r becomes rank r * lanes + k, on the machine of r. It runs r's plan on its stripe of
// the bytes and talks to lane k of r's peers. It prefers a rail as in the engine
// (scheduler/stripes); a rail that the plan names goes before. Everything else of the
// simulator knows ranks alone, and a rank with one lane is simulated as if there were no lanes.
#pragma once

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

// How many lanes of each rank have a part in the job: at most `options.lanes`; one if the operation is
// not cut into stripes.
[[nodiscard]] int lanes_of(const SimulatedJob& job, const SimulateOptions& options);

class LaneJob {
 public:
  // Keeps a reference to the job, which must outlive this object.
  LaneJob(const SimulatedJob& job, const SimulateOptions& options);

  // Refers to this object.
  [[nodiscard]] SimulatedJob job() const;
  [[nodiscard]] const SimulateOptions& options() const { return options_; }

 private:
  [[nodiscard]] Planned plan(Rank lane) const;
  void prefer_rails(Planned& planned, int lane) const;

  const SimulatedJob& by_rank_;
  SimulateOptions options_;
  Cluster cluster_;
  Placement placement_;
  RailUse rails_;
};

// Makes the results of lanes those of their ranks.
void join_lanes(int lanes, Simulation& simulation);

}  // namespace weft::simulator
