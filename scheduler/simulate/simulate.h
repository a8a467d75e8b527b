// simulate: how long plans take on a cluster, which need not exist.
//
// The programs of all ranks run as plan.h says, on a model of the cluster. Messages are flows that
// share links with max-min fairness. The links are each machine's interface on each rail, out and
// in; a switch's links upwards, if they are oversubscribed; and the memory of a machine. Ranks
// post, wait and combine at given rates, each with one lane or several. docs/simulation.md describes
// the model and what it leaves out. Times are in microseconds, counted from the moment when the ranks that are not late begin.
//
// Values and pure functions of values; any thread may call. Equal inputs give equal results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/stripes/stripes.h"
#include "topology/cluster/cluster.h"
#include "topology/rails/rails.h"

namespace weft {

// Sizes of a rank's buffers in bytes, the same at all ranks. A buffer with a `given` partition has
// blocks of `block` bytes.
struct OperandBytes {
  std::size_t input = 0;
  std::size_t output = 0;
  std::size_t block = 0;
};

// What is simulated. It refers to values of the caller. `plan` is called once for each rank, or
// only for some if ranks are alike. For one rank it always returns the same plan.
struct SimulatedJob {
  const Cluster& cluster;
  const Placement& placement;
  const RailUse& rails;
  int ranks = 1;  // may be fewer than the cluster has
  std::function<Planned(Rank)> plan;
  OperandBytes bytes;
};

struct Straggler {
  Rank rank = 0;
  double delay_us = 0;  // begins later by this time
  double slowdown = 1;  // posts, combines and reads memory slower by this factor
};

struct SimulateOptions {
  // Lanes of each rank: threads that share a large operation (scheduler/stripes).
  int lanes = 1;
  // Time of a lane's processor for each message, at the sender and again at the receiver.
  double message_us = 0;
  // Rate at which a lane reads all terms together while it combines. 0:
  // SharedMemory::combine_gbyte_per_s.
  double combine_gbyte_per_s = 0;
  // A message is combined piece by piece while it arrives, and takes at most as many rails as it
  // has pieces. Which piece size is good depends on the network: TCP needs 512 KiB to stream
  // (docs/performance.md).
  std::size_t piece_bytes = std::size_t{512} << 10;
  // Messages up to this size are copied at once. Their source may be overwritten when they were
  // sent.
  std::size_t eager_bytes = std::size_t{16} << 10;
  std::vector<Straggler> stragglers{};
  // Simulates only one of the groups of ranks that are alike (Simulation::alike).
  bool collapse = true;
  // Keeps the bars that drawings need.
  bool keep_bars = false;
  // Called now and then with the part of the messages that have left so far, from 0 to 1. False ends
  // the simulation: its error is `closed`.
  std::function<bool(double)> goes_on{};
  // A job with more messages is refused: each message takes about 200 bytes and 3 us.
  std::uint64_t most_messages = 40'000'000;
};

struct Link {
  enum class Kind : std::uint8_t { nic_out, nic_in, up, down, rank_memory, memory };
  Kind kind = Kind::nic_out;
  int rail = -1;   // -1: memory
  int number = 0;  // of the machine, the switch or, for rank_memory, the rank
  int level = 0;   // of the switch
  int lane = -1;   // for rank_memory, of the rank; -1: the rank has one lane
  double bytes_per_us = 0;
  // Results of a run.
  double bytes = 0;
  double busy_us = 0;  // time in which the link had something to carry
};
// "rail 0: node3 sends", "rail 0: leaf 1 up", "rank 4 reads", "rank 4, lane 1 reads", "memory of
// node3".
[[nodiscard]] std::string name(const Link& link, const Cluster& cluster);
// All links of this kind on this rail: "rail 0 sending", "rail 0 up from leaves", "memory".
[[nodiscard]] std::string group_name(const Link& link, const Cluster& cluster);

// All messages that have the same number of messages before them in their longest chain of
// dependencies.
struct Phase {
  std::uint64_t messages = 0;
  double bytes = 0;
  double begin_us = 0;  // when the first is posted
  double end_us = 0;    // when the last has arrived
};

// A part of the critical path: the chain of computations and transfers, each waiting for the one
// before, that ends when the last rank does.
struct Cause {
  enum class Kind : std::uint8_t { wire, latency, combining, memory, posting, lateness };
  Kind kind = Kind::wire;
  int link = -1;        // wire: index into Simulation::links of the link that limited the message
  Rank rank = kNoRank;  // lateness
  double us = 0;
};

// What a rank was doing. A message is shown at its sender, until its last byte had left.
struct Bar {
  enum class Kind : std::uint8_t { message, combine };
  Kind kind = Kind::message;
  Rank rank = 0;
  Rank peer = kNoRank;      // message: its receiver
  int rail = -1;            // message: the first rail that carried it; -1: memory
  std::uint32_t phase = 0;  // message: its phase, from 1
  std::size_t bytes = 0;
  double begin_us = 0;
  double end_us = 0;
};

struct Simulation {
  double total_us = 0;
  int lanes = 1;  // of each rank, that had a part in it
  // When each simulated rank's plan ended. Rank r ends at finish_us[r % finish_us.size()].
  std::vector<double> finish_us;
  std::vector<int> machine;  // by simulated rank: its machine
  std::vector<Link> links;   // those that the simulated ranks use
  std::vector<Phase> phases;
  std::vector<Cause> critical;  // longest first
  std::uint64_t messages = 0;   // of all ranks
  // Ranks r and r + alike do the same, so only ranks 0 … alike-1 were simulated. If no ranks are
  // alike, the number of all ranks.
  int alike = 1;
  std::string why;  // why ranks are alike or not
  std::vector<Bar> bars;
};

// Errors: plans that do not match or wait for each other for ever, ranks that no rail connects,
// more messages than `most_messages`, and `closed` where `goes_on` ended it.
[[nodiscard]] Result<Simulation> simulate(const SimulatedJob& job,
                                          const SimulateOptions& options = {});

// What the critical path consists of: "rail 0 sending 61%, combining 30%, latency 9%".
[[nodiscard]] std::string explain(const Simulation& simulation, const Cluster& cluster);
// The part of the critical path, from 0 to 1, in which a lane combined or read memory. More lanes
// shorten this part alone.
[[nodiscard]] double lane_share(const Simulation& simulation);
// The link that carried the largest part of what it could have carried. Null if nothing was
// carried.
[[nodiscard]] const Link* busiest(const Simulation& simulation);

// A run as one SVG document: what each rank does over time, and how busy the links are. Needs
// `keep_bars`. If there are more than 48 ranks, the first, the last and those that end last are
// drawn.
[[nodiscard]] std::string draw_run(const Simulation& simulation, const Cluster& cluster,
                                   const std::string& title);
// Which rank sends to which in which phase: a column of dots where a phase begins, an arrow for
// each message. For at most 32 ranks and 24 phases. Needs `keep_bars`, and all ranks simulated.
[[nodiscard]] std::string draw_plan(const Simulation& simulation, const Cluster& cluster,
                                    const std::string& title);

}  // namespace weft
