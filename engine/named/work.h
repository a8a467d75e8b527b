// work: what a call of Named has submitted, from the call to its end.
//
// A work keeps copies of everything that its requests name (counts, weights, groups), since the
// caller's belong to the caller as soon as the call returns. The tensors stay the caller's.
// Internal to the module.
#pragma once

#include <weft/graph.h>
#include <weft/memory.h>
#include <weft/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/compress/compress.h"
#include "engine/gpu/gpu.h"
#include "engine/lane/lane.h"
#include "engine/request/request.h"

namespace weft::named {

// The edges of one neighbor operation at this rank, with weights, ascending by rank.
struct Edges {
  double self_weight = 1.0;
  std::vector<NeighborWeight> sources;
  std::vector<NeighborWeight> destinations;
  // Some of the sources may send nothing this time, and say so.
  bool may_skip = false;
  // Out-neighbors that get nothing this time, and are told so.
  std::vector<Rank> skipped;
};

// The graph that neighbor operations follow.
struct GraphOfCalls {
  Graph graph;
  bool is_weighted = false;
};

// The edges of a request. pair_average, group_average, send and recv have edges, too: to and from
// the ranks that they name.
[[nodiscard]] Result<Edges> edges_of(const Request& request, const GraphOfCalls& graph, Rank rank);

// Whether the operands of an operation of neighbors have the types and sizes that its edges need.
[[nodiscard]] Status check_parts(const Request& request, const Edges& edges);

// The extents that the ranks must have in common; empty: they are not compared.
[[nodiscard]] std::vector<std::size_t> common_shape(const Request& request);

// Whether the operation is matched on its edges. The others are operations of all ranks.
[[nodiscard]] bool is_of_neighbors(Collective collective);

// Copies of the requests of a work, with what they name but the tensors. A group has thousands of requests
// that name nothing but extents, so those share one allocation.
class Requests {
 public:
  // `bits`: in place of Bits::automatic.
  void assign(std::span<const Request> given, Bits bits);

  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] const Request& operator[](std::size_t i) const { return all_[i]; }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }
  // Other memory for the tensors of the first one.
  void put(const void* input, void* output) {
    all_.front().input.data = input;
    all_.front().output.data = output;
  }

 private:
  std::vector<Request> all_;
  std::vector<std::size_t> extents_;
  std::vector<std::unique_ptr<OwnedRequest>> owned_;  // of those that name more
};

// One submission.
struct Work {
  std::string name;
  std::uint32_t number = 0;  // of the submission
  int priority = 0;
  Requests requests;                     // several: a group
  std::optional<Edges> edges;            // of an operation of neighbors
  std::shared_ptr<Operation> operation;  // the handle's
  std::int64_t submitted_ns = 0;
  bool is_running = false;  // the ranks have agreed on it
  std::size_t left = 0;     // tensors of the group that have not ended
  // Of an operation of neighbors on GPU memory whose place is not chosen yet.
  std::shared_ptr<GpuOperands> to_place;
  // Of a compressed operation of neighbors: what travels in place of the input, so many bytes.
  Memory encoded;
  std::size_t encoded_bytes = 0;
  // Of compressed operations of all ranks: each request's; empty: none has any.
  std::vector<ResidualUse> residuals;
  // Where the input is on its GPU, if a device alias is in its place; else null.
  const void* input_on_gpu = nullptr;
  Status status;  // the first error of a tensor

  [[nodiscard]] const Request& request() const { return requests[0]; }
};

// A name that waits for a rank that has left. `rank` is kNoRank if there is none.
struct Departure {
  Rank rank = kNoRank;
  std::string name;
};

}  // namespace weft::named
