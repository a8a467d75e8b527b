// simulate: how long plans take on a cluster that need not be at hand.
//
// All ranks' programs run as plan.h says, on a model of the cluster: messages are flows that share
// links (each machine's interface on each rail, out and in; a switch's links upwards where they
// are oversubscribed; the memory of a machine) max-min fairly, and ranks post, wait and combine at
// given rates. docs/simulation.md has the model and what it leaves out. Times are in microseconds,
// from when ranks that are not late begin.
//
// Values and pure functions of values; any thread may call. Equal inputs give equal results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"
#include "topology/cluster/cluster.h"
#include "topology/rails/rails.h"

namespace weft {

// Bytes of a rank's buffers, the same at all ranks. A buffer that is partitioned `given` has blocks
// of `block` bytes.
struct OperandBytes {
  std::size_t input = 0;
  std::size_t output = 0;
  std::size_t block = 0;
};

// What is simulated. Refers to values of the caller's; `plan` is asked once for each rank, or for
// some where ranks are alike, and answers the same whenever it is asked.
struct SimulatedJob {
  const Cluster& cluster;
  const Placement& placement;
  const RailUse& rails;
  int ranks = 1;  // may be fewer than the cluster's
  std::function<Planned(Rank)> plan;
  OperandBytes bytes;
};

struct Straggler {
  Rank rank = 0;
  double delay_us = 0;  // begins so much later
  double slowdown = 1;  // posts, combines and reads memory so many times slower
};

struct SimulateOptions {
  // A rank's processor for each message, once at either end.
  double message_us = 0;
  // What a rank reads while it combines, counted over all terms. 0: as SharedMemory::gbyte_per_s.
  double combine_gbyte_per_s = 0;
  // A message is combined piece by piece while it arrives, and takes as many rails as it has
  // pieces. Their size is the network's to say: TCP streams with 512 KiB (docs/performance.md).
  std::size_t piece_bytes = std::size_t{512} << 10;
  // Up to here a message is copied at once, so its source may be overwritten when it was sent.
  std::size_t eager_bytes = std::size_t{16} << 10;
  std::vector<Straggler> stragglers{};
  // Simulates one of all groups of ranks that are alike (Simulation::alike).
  bool collapse = true;
  // Keeps the bars that drawings need.
  bool keep_bars = false;
  // More are refused: each takes about 200 bytes and 3 us.
  std::uint64_t most_messages = 40'000'000;
};

struct Link {
  enum class Kind : std::uint8_t { nic_out, nic_in, up, down, rank_memory, memory };
  Kind kind = Kind::nic_out;
  int rail = -1;   // -1: memory
  int number = 0;  // of the machine, the switch or, for rank_memory, the rank
  int level = 0;   // of the switch
  double bytes_per_us = 0;
  // Of a run.
  double bytes = 0;
  double busy_us = 0;  // with something to carry
};
// "rail 0: node3 sends", "rail 0: leaf 1 up", "rank 4 reads", "memory of node3".
[[nodiscard]] std::string name(const Link& link, const Cluster& cluster);
// Those of its kind on its rail: "rail 0 sending", "rail 0 up from leaves", "memory".
[[nodiscard]] std::string group_name(const Link& link, const Cluster& cluster);

// Messages whose longest chain of messages that had to come first has one length.
struct Phase {
  std::uint64_t messages = 0;
  double bytes = 0;
  double begin_us = 0;  // the first is posted
  double end_us = 0;    // the last has arrived
};

// A part of the critical path: the chain of works and transfers, each waiting for the one before,
// that ends when the last rank does.
struct Cause {
  enum class Kind : std::uint8_t { wire, latency, combining, memory, posting, lateness };
  Kind kind = Kind::wire;
  int link = -1;        // wire: index into Simulation::links, what held the message up
  Rank rank = kNoRank;  // lateness
  double us = 0;
};

// What was going on at a rank. Of a message: at its sender, until its last byte had left.
struct Bar {
  enum class Kind : std::uint8_t { message, combine };
  Kind kind = Kind::message;
  Rank rank = 0;
  Rank peer = kNoRank;      // message: to
  int rail = -1;            // message: the first of those that carried it; -1: memory
  std::uint32_t phase = 0;  // message: from 1
  std::size_t bytes = 0;
  double begin_us = 0;
  double end_us = 0;
};

struct Simulation {
  double total_us = 0;
  // When a rank's plan ended. Of the ranks that were simulated: rank r is like finish_us[r % size].
  std::vector<double> finish_us;
  std::vector<int> machine;  // of the simulated ranks: where they sit
  std::vector<Link> links;   // of the simulated ranks
  std::vector<Phase> phases;
  std::vector<Cause> critical;  // longest first
  std::uint64_t messages = 0;   // of all ranks
  // Ranks r and r + alike do the same, so only 0 … alike-1 were simulated; else all ranks' number.
  int alike = 1;
  std::string why;  // alike or not
  std::vector<Bar> bars;
};

// Refuses plans that do not match or wait for each other for ever, ranks without a way between them
// and more messages than `most_messages`.
[[nodiscard]] Result<Simulation> simulate(const SimulatedJob& job,
                                          const SimulateOptions& options = {});

// "rail 0 sending 61%, combining 30%, latency 9%": what the critical path is made of.
[[nodiscard]] std::string explain(const Simulation& simulation, const Cluster& cluster);
// The link that carried most of what it could have; null: nothing was carried.
[[nodiscard]] const Link* busiest(const Simulation& simulation);

// A run as one SVG document: what each rank does over time, and how busy the links are. Needs
// `keep_bars`. Of more than 48 ranks the first, the last and the latest are drawn.
[[nodiscard]] std::string draw_run(const Simulation& simulation, const Cluster& cluster,
                                   const std::string& title);
// Who sends to whom in which phase: a column of dots where a phase begins, an arrow for each
// message. Of up to 32 ranks and 24 phases. Needs `keep_bars`, of all ranks.
[[nodiscard]] std::string draw_plan(const Simulation& simulation, const Cluster& cluster,
                                    const std::string& title);

}  // namespace weft
