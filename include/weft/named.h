// named: operations that ranks submit by name, in any order.
//
//   auto named = context->named();                                   // collective
//   for (auto& [name, x] : gradients)                                // each rank in an order of its own
//     handles.push_back(*named->allreduce_start(name, weft::in(x…), weft::out(x…)));
//   for (auto& handle : handles) handle.wait();
//
// The functions of Context are ordered: all ranks call the same operations in the same order. A
// framework whose layers finish in an order that differs from rank to rank cannot keep that. Here
// operations are matched by name instead, as in Horovod.
//
// Operations of all ranks (allreduce, broadcast, …) run once every rank has submitted the name, in
// one order that the ranks agree on. The first time a name is submitted, it is reported to rank 0.
// From then on the name is in a *response cache*, the same on all ranks, and the ranks agree by
// exchanging one bit for each name. So a loop that repeats its names does not report them again.
//
// Operations of neighbors (neighbor_allreduce, neighbor_allgather, pair_average, group_average,
// send, recv) are matched by name on each edge. They wait only for the neighbors that they name.
//
// Fusion. Small tensors that are ready at the same time, and that go to the same ranks with the
// same operation and type, travel as one message. A fused neighbor operation gives the same bits as
// an unfused one. So does an allreduce, as long as the algorithm is the same (docs/named.md).
//
// A name is in use from its submission until its operation has ended; submitting it again before
// that is invalid_argument. Ranks that submit a name with another operation, type, size, shape,
// operator or root get a `mismatch` on all ranks, which names the ranks and both values; other
// names go on. Shapes are compared where they are given (Request::shape). If not all ranks submit a
// name in time (NamedOptions::stall_ms), the log lists those that have not. The operation ends with
// `timed_out` at Config::deadline_ms, or with `peer_left` as soon as a rank that it needs has left.
//
// Threads: any thread may call any function. Named is a handle: copies name the same object. The
// context must outlive it. Memory belongs to an operation from its submission to its end.
#pragma once

#include <weft/graph.h>
#include <weft/handle.h>
#include <weft/status.h>
#include <weft/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace WEFT_PUBLIC weft {

class NamedObject;  // the implementation; internal

struct NamedOptions {
  // How many names the response cache holds. 0: none, and every submission is reported to rank 0.
  // Not above 65,536.
  std::size_t cache_capacity = 1024;
  // Small tensors are fused into messages of at most so many bytes. 0: never. Negative: by rule,
  // which is 512 KiB where all ranks share memory (a packed message is still in the processor's
  // cache when it is summed), and 8 MiB over networks.
  std::int64_t fusion_bytes = -1;
  // A larger tensor travels alone, without a copy. Negative: by rule, 64 KiB where all ranks share
  // memory, and 1 MiB over networks.
  std::int64_t fused_tensor_bytes = -1;
  // How long a rank with a new name waits for more names before a cycle begins. Negative: by rule,
  // which is 200 us while operations of earlier names run, and else 0.
  std::int64_t gather_us = -1;
  // Messages to other machines travel in pieces of at most so many bytes. Negative, or more than the
  // interface takes: as large as the interface takes them (256 KiB over RDMA, 512 KiB over UCX).
  std::int64_t piece_bytes = -1;
  // If a name is pending for so long, rank 0 logs it with the ranks that have not submitted it;
  // then again, each time after twice as long. For operations of neighbors, each rank logs the
  // ranks for which it waits.
  std::int64_t stall_ms = 10'000;
  // Searches for the best fusion_bytes, fused_tensor_bytes, gather_us and, between machines,
  // piece_bytes, as far as these are negative, while a loop repeats its names. Rank 0 measures the
  // time from one step to the next. When nothing better is found, the search ends with the best
  // values, or with those by rule. All ranks give the same. Operations of neighbors keep the values
  // by rule.
  bool autotune = false;
};

class Named {
 public:
  Named() = default;  // every call is invalid_argument
  explicit Named(std::shared_ptr<NamedObject> object);

  // Submits any operation, as a value. Of operations that are ready at the same time, those with a
  // higher priority run first. All ranks give a name the same priority.
  Result<Handle> start(std::string_view name, const Request& request, int priority = 0);
  // The same, and waits for its end.
  Status run(std::string_view name, const Request& request, int priority = 0);
  // Submits a group: operations of one kind, which count as one name and run together once every
  // rank has submitted the group. Only for operations of all ranks.
  Result<Handle> start_group(std::string_view name, std::span<const Request> requests,
                             int priority = 0);

  Result<Handle> allreduce_start(std::string_view name, const Input& x, const Output& y,
                                 ReduceOp op = ReduceOp::average);
  Status allreduce(std::string_view name, const Input& x, const Output& y,
                   ReduceOp op = ReduceOp::average);
  Result<Handle> broadcast_start(std::string_view name, const Input& x, const Output& y, Rank root);
  Status broadcast(std::string_view name, const Input& x, const Output& y, Rank root);
  Result<Handle> neighbor_allreduce_start(std::string_view name, const Input& x, const Output& y,
                                          const NeighborWeights& weights = {});
  Status neighbor_allreduce(std::string_view name, const Input& x, const Output& y,
                            const NeighborWeights& weights = {});

  // This rank has no more data: it contributes zeros to every allreduce that the others run, until
  // all ranks have joined. Returns the rank that joined last. Operations other than an allreduce
  // fail while a rank has joined. timed_out if nothing runs for Config::deadline_ms.
  Result<Rank> join();

  // The graph of neighbor operations without peers of their own: at first that of the context.
  // Operations that were submitted keep the graph with which they were submitted. Hierarchical
  // operations use the machine graph that the context had when this object was made.
  Status set_graph(Graph graph, bool weighted = false);

  // What this object has done; for tools and tests.
  struct Usage {
    std::uint64_t submitted = 0;             // names
    std::uint64_t cycles = 0;                // agreements between all ranks
    std::uint64_t control_bytes = 0;         // that this rank sent to agree
    std::uint64_t control_messages = 0;      // the same
    std::uint64_t coordinator_messages = 0;  // of these, requests that are not in the cache
    std::uint64_t cache_hits = 0;
    std::uint64_t batches = 0;  // operations that ran
    std::uint64_t fused = 0;    // names that ran together with others
    // Batches by how many names ran together: element k has those of 2^k to 2^(k+1) - 1 names, the
    // last one also those of more.
    std::array<std::uint64_t, 12> batches_by_names{};
    std::size_t pending = 0;
    std::size_t fusion_buffer_bytes = 0;
    // What operations of all ranks are fused by now; gather_us -1: by rule.
    std::uint64_t fusion_bytes = 0;
    std::uint64_t fused_tensor_bytes = 0;
    std::int64_t gather_us = 0;
    std::uint64_t piece_bytes = 0;
    bool is_tuning = false;  // at rank 0, as long as autotune has not found the best values
  };
  [[nodiscard]] Result<Usage> usage() const;

  // Ends this object. Collective. Pending operations are an error on all ranks.
  Status end();

 private:
  std::shared_ptr<NamedObject> object_;
};

}  // namespace weft
