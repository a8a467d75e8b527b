// context: a rank's membership in a job, and everything it can do there. The public C++ API.
//
//   auto context = weft::Context::from_environment();            // under `weft run`, mpirun, …
//   (*context)->set_graph(*weft::exponential_graph((*context)->size()));
//   float* x = static_cast<float*>(weft::allocate(bytes).value());
//   weft::Status done = (*context)->neighbor_allreduce(weft::in(x, n), weft::out(y, n));
//
// Operations are *ordered*: every rank of the context calls the same operations in the same order.
// Those of some ranks (send, recv, pair_average, group_average) have an order only between each two
// of them: what two ranks share in a direction, both call in the same order. Each comes blocking
// and, as `…_start`, non-blocking with a Handle. Up to Config::channels operations run at once, the
// rest wait their turn. Every wait ends by Config::deadline_ms: with the result, or with a Status
// that names what was waited for. After a failed operation the context is failed: later calls
// return its first error.
//
// Threads: any thread may call, one call at a time per context (calls are serialized); handles may
// be waited for on any thread. Callbacks run on the context's completion thread. Several contexts
// may live in a process. Memory handed to an operation belongs to it until it is done: the input
// must not be written, the output not be touched. Inputs are never modified unless input and output
// are the same memory. In a child that was forked from a process with a context every call is an error,
// and destroying what is there does nothing. On an error the output's content is unspecified when Status::text() says so,
// else untouched.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/config/config.h"
#include "engine/kernels/kernels.h"
#include "engine/request/request.h"
#include "scheduler/plan/plan.h"
#include "topology/graph/graph.h"
#include "verbs/base/base.h"
#include "verbs/memory/memory.h"

namespace weft {

// A started operation. Copyable reference to shared state; waiting again gives the same answer. A
// handle may outlive the context (it then reports `closed`).
class PendingOperation;
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<PendingOperation> operation);
  // Done, well or badly? Makes progress; never blocks.
  [[nodiscard]] bool test();
  // Blocks until done, at most the operation's deadline.
  Status wait();
  // Runs `call` once, on the context's completion thread, when the operation is done; at once if it
  // is done already. A callback may start operations, destroy the context, and throw: an exception is
  // logged as an error. An error, and no call, where the thread cannot be started.
  Status then(std::function<void(const Status&)> call);

 private:
  std::shared_ptr<PendingOperation> operation_;
};

// The color of ranks that want no part in a split; so does any negative one.
inline constexpr int kNoColor = -1;

class Context {
 public:
  class Core;  // what is behind it; internal

  // Joins the job that `store` leads to. Collective. The context shares ownership of the store.
  static Result<std::unique_ptr<Context>> create(const Config& config,
                                                 std::shared_ptr<Store> store);
  // Reads the environment once and joins: `weft run`, or WEFT_RENDEZVOUS + WEFT_RANK + WEFT_SIZE;
  // alone otherwise.
  static Result<std::unique_ptr<Context>> from_environment();
  ~Context();  // leaves: says goodbye to the peers; operations still in flight fail with `closed`
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const Config& config() const;

  // Collective: all ranks give the same graph. `weighted`: neighbor operations use the graph's
  // weights, else uniform ones. A graph of another size is invalid_argument. Waits for operations
  // in flight, which have the graph that was there when they were started.
  Status set_graph(Graph graph, bool weighted = false);
  [[nodiscard]] const Graph& graph() const;

  // Where this rank is. Which ranks are on which machine is read from the job's table when first
  // asked for, a value for each rank; the same at all ranks. Ranks are on one machine when they
  // name the same one (WEFT_HOST), or run under one kernel and host name; after a split those of
  // the new context count.
  struct Placement {
    int local_rank = kNoRank;     // among the ranks of its machine, ascending by rank
    int local_size = 0;           // ranks on its machine
    int machine_rank = kNoRank;   // machines are numbered by their lowest rank
    int machine_size = 0;         // machines
    bool is_homogeneous = false;  // all machines have local_size ranks
    Layout layout;                // every rank's machine, and the rails between machines
  };
  [[nodiscard]] Result<Placement> placement() const;
  // Parts of it, as they are above where the table does not answer.
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  [[nodiscard]] int machine_rank() const;
  [[nodiscard]] int machine_size() const;
  [[nodiscard]] bool is_homogeneous() const;

  // Collective: the graph of machines, of machine_size() of them, for hierarchical operations.
  // There is none before. Operations that were started keep the graph they were started with.
  Status set_machine_graph(Graph graph, bool weighted = false);
  // None: not set.
  [[nodiscard]] std::optional<Graph> machine_graph() const;

  // Any operation, as a value that says all of it: what the functions below are made of.
  Status run(const Request& request);
  Result<Handle> start(const Request& request);

  Status neighbor_allreduce(const Input& x, const Output& y, const NeighborWeights& weights = {});
  Result<Handle> neighbor_allreduce_start(const Input& x, const Output& y,
                                          const NeighborWeights& weights = {});

  // x averaged inside each machine, then y := the weighted sum of the means over the machine's
  // in-neighbors in the graph of machines, in their order: the same bits on all ranks of a machine.
  // Between machines that share an edge only one x travels in each direction, a share of it from
  // and to each rank. `machine_weights` as for neighbor_allreduce, its ranks being machines; all
  // ranks of a machine give the same. Floating types.
  Status hierarchical_neighbor_allreduce(const Input& x, const Output& y,
                                         const NeighborWeights& machine_weights = {});
  Result<Handle> hierarchical_neighbor_allreduce_start(const Input& x, const Output& y,
                                                       const NeighborWeights& machine_weights = {});

  // y := the in-neighbors' x, one after another by ascending rank. `counts`: elements from each
  // in-neighbor; empty: x.count from each. y.count is their sum.
  Status neighbor_allgather(const Input& x, const Output& y,
                            std::span<const std::size_t> counts = {});
  Result<Handle> neighbor_allgather_start(const Input& x, const Output& y,
                                          std::span<const std::size_t> counts = {});

  // An algorithm that the ranks or machines there are do not allow is invalid_argument.
  Status allreduce(const Input& x, const Output& y, ReduceOp op = ReduceOp::average,
                   AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic);
  Result<Handle> allreduce_start(const Input& x, const Output& y, ReduceOp op = ReduceOp::average,
                                 AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic);

  // allreduce among the ranks of each machine. Called by all ranks, as any operation; machines do
  // not wait for each other. Other operations inside a machine: split(machine_rank()).
  Status local_allreduce(const Input& x, const Output& y, ReduceOp op = ReduceOp::average);
  Result<Handle> local_allreduce_start(const Input& x, const Output& y,
                                       ReduceOp op = ReduceOp::average);

  // x of the root to y of everybody. Off the root x is not read and may be empty.
  Status broadcast(const Input& x, const Output& y, Rank root);
  Result<Handle> broadcast_start(const Input& x, const Output& y, Rank root);

  Status barrier();
  Result<Handle> barrier_start();

  // y := everybody's x, one after another by rank. `counts`: elements from each rank; empty:
  // x.count from each. y.count is their sum. In place: x is this rank's block of y.
  Status allgather(const Input& x, const Output& y, std::span<const std::size_t> counts = {});
  Result<Handle> allgather_start(const Input& x, const Output& y,
                                 std::span<const std::size_t> counts = {});

  // y := this rank's block of the reduction of everybody's x. `counts`: elements of each rank's
  // block, which make up x; empty: block r is block_range(x.count, 1, size(), r), so blocks are
  // equal where x.count allows it and else differ by one. In place: y is this rank's block of x.
  Status reduce_scatter(const Input& x, const Output& y, ReduceOp op = ReduceOp::average,
                        std::span<const std::size_t> counts = {});
  Result<Handle> reduce_scatter_start(const Input& x, const Output& y,
                                      ReduceOp op = ReduceOp::average,
                                      std::span<const std::size_t> counts = {});

  // The root's y := the reduction of everybody's x. Off the root y is not written and may be empty.
  Status reduce(const Input& x, const Output& y, Rank root, ReduceOp op = ReduceOp::average);
  Result<Handle> reduce_start(const Input& x, const Output& y, Rank root,
                              ReduceOp op = ReduceOp::average);

  // The root's y := everybody's x, as allgather gives it to all. Off the root y is not written and
  // may be empty, and counts are not read.
  Status gather(const Input& x, const Output& y, Rank root,
                std::span<const std::size_t> counts = {});
  Result<Handle> gather_start(const Input& x, const Output& y, Rank root,
                              std::span<const std::size_t> counts = {});

  // y := this rank's block of the root's x. `counts`: elements of each rank's block, which make up
  // x; empty: y.count for each. Off the root x and counts are not read. In place at the root: y is
  // its block of x.
  Status scatter(const Input& x, const Output& y, Rank root,
                 std::span<const std::size_t> counts = {});
  Result<Handle> scatter_start(const Input& x, const Output& y, Rank root,
                               std::span<const std::size_t> counts = {});

  // Block r of y := block rank() of rank r's x. alltoall: size() equal blocks. alltoallv: elements
  // to and from each rank; what one sends is what the other receives. In place needs as much in
  // both directions.
  Status alltoall(const Input& x, const Output& y);
  Result<Handle> alltoall_start(const Input& x, const Output& y);
  Status alltoallv(const Input& x, const Output& y, std::span<const std::size_t> send_counts,
                   std::span<const std::size_t> receive_counts);
  Result<Handle> alltoallv_start(const Input& x, const Output& y,
                                 std::span<const std::size_t> send_counts,
                                 std::span<const std::size_t> receive_counts);

  // The receiver's y := the sender's x. The k-th send to a rank is its k-th recv from us, of the
  // same type and size. A send of at most Config::eager_bytes ends when it has a slot at the
  // receiver, a larger one when it was read.
  Status send(const Input& x, Rank to);
  Result<Handle> send_start(const Input& x, Rank to);
  Status recv(const Output& y, Rank from);
  Result<Handle> recv_start(const Output& y, Rank from);

  // y := self_weight x + pair_weight x_peer; both ranks call, each with its own weights. Floating
  // types.
  Status pair_average(const Input& x, const Output& y, Rank peer, double self_weight = 0.5,
                      double pair_weight = 0.5);
  Result<Handle> pair_average_start(const Input& x, const Output& y, Rank peer,
                                    double self_weight = 0.5, double pair_weight = 0.5);

  // y := the mean of x over the group (Prague's partial all-reduce), the same bits on all members.
  // Its members call, in any order of `ranks`, the others do not; groups apart run at the same
  // time. Floating types.
  Status group_average(const Input& x, const Output& y, std::span<const Rank> ranks);
  Result<Handle> group_average_start(const Input& x, const Output& y, std::span<const Rank> ranks);

  // A context of the ranks that give the same color, numbered anew by (key, rank); null for
  // kNoColor. Collective over this context. The two are independent from then on: each has its own
  // order and its own failures, and a death concerns only contexts that the rank was in.
  Result<std::unique_ptr<Context>> split(int color, int key = 0);

  // What this context holds and has done; for tools and tests.
  struct Usage {
    std::size_t connected_peers = 0;
    std::size_t endpoint_bytes = 0;  // rings and slots, this rank's share
    std::size_t scratch_bytes = 0;   // plans' scratch and staging
    std::size_t plans_cached = 0;
    std::uint64_t operations = 0;  // completed
    // Payload that operations gave to ranks which do not share our memory, each byte once.
    std::uint64_t network_bytes = 0;
    std::uint64_t allocations = 0;  // made by operations after their first use of a shape
  };
  [[nodiscard]] Usage usage() const;
  // Why the last operation ran as it did: algorithm, path per peer, memory. One line each.
  [[nodiscard]] std::string explain() const;

 private:
  explicit Context(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;  // handles hold it weakly
};

}  // namespace weft
