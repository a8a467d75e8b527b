// Contenders: what is timed against each other in one measurement, each as a Subject for time_laps.
// The operation as Weft does it, static or with weights that change every call, and its floor.
#pragma once

#include "engine/context/context.h"
#include "tools/weft/perf/options.h"
#include "tools/weft/perf/peer.h"
#include "tools/weft/perf/seat.h"

namespace weft {

// Calls of the public API on one size. Keeps references to the context and the tensors.
class OwnCalls {
 public:
  OwnCalls(const PerfOptions& options, bool dynamic, Context& context, const Tensors& tensors);

  [[nodiscard]] Subject subject();
  // The same operation, prepared once.
  [[nodiscard]] Result<Subject> prepared();
  // Instead of the options' bits.
  void use(Bits bits) { bits_ = bits; }
  // The calls work on this memory; what rewrites and checks goes on to use the tensors.
  void use(const void* x, void* y) {
    called_x_.data = x;
    called_y_.data = y;
  }

 private:
  // What a rank gives with one call when the weights change every step.
  struct Step {
    double self = 1;
    std::vector<NeighborWeight> sources;
    std::vector<NeighborWeight> destinations;
    Recipe recipe;
  };

  [[nodiscard]] std::size_t block_count() const;
  Status run(int times);
  Status call();
  // Null: the graph's weights.
  [[nodiscard]] Request request(const NeighborWeights* weights) const;
  NeighborWeights next_weights();
  Status check(std::uint64_t lap) const;
  [[nodiscard]] Step step_of(const LocalView& view) const;

  const PerfOptions& options_;
  Context& context_;
  const Tensors& tensors_;
  Input x_, called_x_;
  Output y_, called_y_;
  Bits bits_;
  ReduceOp op_;
  Recipe recipe_;
  std::vector<Step> steps_;  // of one period, at most kMostSteps; empty when static
  std::size_t next_step_ = 0;
};

// The floor of the same operation on the same tensors, with cached or streaming stores.
class FloorCalls {
 public:
  FloorCalls(const PerfOptions& options, bool streaming, Seat& seat, const Tensors& tensors);

  [[nodiscard]] Subject subject();

 private:
  const PerfOptions& options_;
  const Tensors& tensors_;
  Rank rank_;
  bool streaming_;
  Recipe recipe_;
  Floor floor_;
};

// The job of the peer that was asked for; null: none. Rank 0 calls it.
[[nodiscard]] Result<std::unique_ptr<PeerJob>> open_peer(const PerfOptions& options);

}  // namespace weft
