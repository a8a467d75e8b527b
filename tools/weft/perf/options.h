// What `weft perf` was asked to measure, understood and checked before any rank starts.
#pragma once

#include <weft/graph.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "scheduler/plan/plan.h"
#include "tools/limits/limits.h"
#include "tools/weft/perf/tensors.h"
#include "tools/weft/perf/window_op.h"

namespace weft {

inline constexpr const char* kShmEnds =
    "--transport shm, the default, ends at a machine; automatic goes on over a network";

// As typed on the command line.
struct PerfArguments {
  std::string operation;
  std::string graph = "exponential";
  int ranks = 4;
  std::string sizes = "4,64,1K,4K,16K,64K,256K,1M,4M,16M,64M";
  std::string transport;  // empty: as the settings say, without any shm
  std::string memory = "weft";
  std::string type = "f32";
  std::string algorithm = "auto";
  std::string bits = "auto";
  std::string compression = "none";
  int hosts = 1;
  int lanes = 0;                     // 0: as WEFT_LANES says
  std::string target = "waits";      // what the target of a window's operation does meanwhile
  std::string tensors = "resnet50";  // of `named`
  double compute_ms = 0;             // between the tensors of `named`
  std::string against;
  std::string json;
  std::string svg;   // draw the rows to this file
  std::string from;  // draw the rows of this file instead of measuring
  double seconds = 1;
  int in_flight = 0;  // 0: not asked
  bool dynamic = false;
  bool in_place = false;
  bool prepared = false;  // also by Context::prepare()
  bool check = false;
  bool explain = false;
  bool memory_use = false;
  bool in_process = false;
  bool autotune = false;  // of `named`: one more row
};

struct PerfOptions {
  Collective collective = Collective::neighbor_allreduce;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
  Bits bits = Bits::automatic;
  Compression compression = Compression::none;
  Graph graph;        // of the ranks, or the machines; of step 0 when the weights change every step
  Schedule schedule;  // read when `dynamic`
  DataType type = DataType::f32;
  std::optional<WindowOp> window;    // measured instead of `collective`
  std::optional<TensorSet> tensors;  // likewise, submitted by name
  std::vector<std::size_t> sizes;    // bytes of one rank's input, or of its block for each rank
  PerfArguments asked;

  [[nodiscard]] bool is_private() const { return asked.memory == "private"; }
  [[nodiscard]] bool on_gpu() const { return asked.memory == "device"; }
  // Ranks are put on machines in order, as evenly as can be.
  [[nodiscard]] int machine_of(Rank rank) const { return rank * asked.hosts / asked.ranks; }
  [[nodiscard]] bool is_over_machines() const {
    return collective == Collective::hierarchical_neighbor_allreduce;
  }
  // What a rank's sources make of the graph, or of a step's view of it.
  [[nodiscard]] Recipe recipe_of(Rank rank) const;
  [[nodiscard]] Recipe in_ranks(Recipe recipe) const;
  [[nodiscard]] std::size_t count(std::size_t bytes) const { return bytes / size_of(type); }
  // The bytes of the two bandwidths, where an input, a block or a window's work has so many.
  [[nodiscard]] CountedBytes counted(std::size_t bytes) const;
};

// Gives `asked.transport` its value where it was not typed. Returns a line for each setting of the user
// that an option overrides.
[[nodiscard]] std::vector<std::string> fit_settings(PerfArguments& asked, const Config& config);

// Everything understood, or an invalid_argument that names what is wrong.
[[nodiscard]] Result<PerfOptions> understand(const PerfArguments& arguments);

}  // namespace weft
