// context: a rank's membership in a job, and everything it can do there. The public C++ API.
//
//   auto context = weft::Context::from_environment();            // under `weft run`, mpirun, …
//   (*context)->set_graph(*weft::exponential_graph((*context)->size()));
//   float* x = static_cast<float*>(weft::allocate(bytes).value());
//   weft::Status done = (*context)->neighbor_allreduce(weft::in(x, n), weft::out(y, n));
//
// Operations are *ordered*: every rank of the context calls the same operations in the same order.
// Subset operations (send, recv, pair_average, group_average) are ordered only between two ranks
// that share them: in each direction, both ranks call them in the same order. Each operation has a
// blocking function, and a non-blocking one, `…_start`, that returns a Handle. Up to
// Config::channels operations run at once, and further ones wait. Every wait ends within
// Config::deadline_ms: with the result, or with a Status that names what was waited for. If an
// operation fails, the context has failed, and later calls return the first error. With
// OnDeath::skip a death fails no context (docs/reliability.md).
//
// Threads: any thread may call any function. Calls on one context are serialized. A handle may be
// waited for on any thread. Callbacks run on the context's completion thread. A process may have
// several contexts.
//
// Memory: an operation owns its input and output until it is done. Until then the caller must not
// write the input and must not read or write the output. An input is never modified unless input
// and output are the same memory. After an error the output is unchanged, unless Status::text()
// says that it holds partial data.
//
// Fork: in a child that was forked from a process with a context, every call returns an error, and
// destroying a context does nothing.
#pragma once

#include <weft/config.h>
#include <weft/graph.h>
#include <weft/handle.h>
#include <weft/layout.h>
#include <weft/memory.h>
#include <weft/named.h>
#include <weft/prepared.h>
#include <weft/status.h>
#include <weft/store.h>
#include <weft/types.h>
#include <weft/window.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace WEFT_PUBLIC weft {

// The color of ranks that take no part in a split. Any other negative color means the same.
inline constexpr int kNoColor = -1;

class Context {
 public:
  class Core;     // the implementation; internal
  class Healing;  // what goes on when ranks die; internal

  // Joins the job that `store` leads to. Collective. The context shares ownership of the store.
  static Result<std::unique_ptr<Context>> create(const Config& config,
                                                 std::shared_ptr<Store> store);
  // Reads the environment and joins the job that it names: by `weft run`, by a launcher with PMIx,
  // or by WEFT_RENDEZVOUS, WEFT_RANK and WEFT_SIZE. If it names none, the rank is alone.
  static Result<std::unique_ptr<Context>> from_environment();
  ~Context();  // leaves the job; operations in flight fail with `closed`
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const Config& config() const;
  // The ranks that are there, ascending. With OnDeath::skip those with which operations go on; else all
  // of which this rank has not heard that they died or left.
  [[nodiscard]] std::vector<Rank> members() const;

  // Collective: all ranks give the same graph. If `weighted`, neighbor operations use the graph's
  // weights, else uniform ones. A graph of another size is invalid_argument. Waits for operations
  // in flight, because they use the graph that was set when they were started.
  Status set_graph(Graph graph, bool weighted = false);
  [[nodiscard]] const Graph& graph() const;

  // Where this rank is, among members(). Two ranks are on the same machine if they name the same one (WEFT_HOST), or
  // run under one kernel and one host name. Only the ranks of this context count, also after a
  // split. All ranks have the same answer. The first call reads one value of each rank from the
  // Store.
  struct Placement {
    int local_rank = kNoRank;     // among the ranks of its machine, ascending by rank
    int local_size = 0;           // ranks on its machine
    int machine_rank = kNoRank;   // machines are numbered by their lowest rank
    int machine_size = 0;         // machines
    bool is_homogeneous = false;  // all machines have local_size ranks
    Layout layout;                // every rank's machine, and the rails between machines
    std::string
        topology;  // "HASH (in words)": ranks, machines, cores and rails, which a profile of
                   // `weft tune` must fit
  };
  [[nodiscard]] Result<Placement> placement() const;
  // Parts of placement(). If that fails, they have the defaults of Placement above.
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  [[nodiscard]] int machine_rank() const;
  [[nodiscard]] int machine_size() const;
  [[nodiscard]] bool is_homogeneous() const;

  // Collective: sets the machine graph for hierarchical operations, which has machine_size() nodes.
  // There is none before the first call. An operation that was started keeps the graph with which
  // it was started.
  Status set_machine_graph(Graph graph, bool weighted = false);
  // Nothing if it was not set.
  [[nodiscard]] std::optional<Graph> machine_graph() const;

  // Runs or starts any operation, as a value. The functions below call these two.
  Status run(const Request& request);
  Result<Handle> start(const Request& request);
  // As run(), for a caller that must do something else after `patience_ns`, as a program in Python
  // that looks for signals. Returns nothing if the operation has ended by then without error, else
  // a handle of the operation, which goes on.
  Result<std::optional<Handle>> run_for(const Request& request, std::int64_t patience_ns);
  // Checks the operation's arguments once, so that it can be run many times (weft/prepared.h). Not
  // collective: the call sends nothing to other ranks, but may connect to them.
  Result<Prepared> prepare(const Request& request);

  Status neighbor_allreduce(const Input& x, const Output& y, const NeighborWeights& weights = {});
  Result<Handle> neighbor_allreduce_start(const Input& x, const Output& y,
                                          const NeighborWeights& weights = {});

  // First x is averaged inside each machine. Then y := the weighted sum of the averages of this
  // machine and its in-neighbors in the machine graph, in the order of the machines. All ranks of a
  // machine get the same bits. Between two machines that share an edge, only one x travels in each
  // direction; each rank of a machine sends and receives a part of it. `machine_weights` are as for
  // neighbor_allreduce, with machines in place of ranks; all ranks of a machine give the same.
  // Floating types.
  Status hierarchical_neighbor_allreduce(const Input& x, const Output& y,
                                         const NeighborWeights& machine_weights = {});
  Result<Handle> hierarchical_neighbor_allreduce_start(const Input& x, const Output& y,
                                                       const NeighborWeights& machine_weights = {});

  // y := the in-neighbors' x, one after another by ascending rank. `counts`: elements from each
  // in-neighbor; empty: x.count from each. y.count is the sum of the counts.
  Status neighbor_allgather(const Input& x, const Output& y,
                            std::span<const std::size_t> counts = {});
  Result<Handle> neighbor_allgather_start(const Input& x, const Output& y,
                                          std::span<const std::size_t> counts = {});

  // An algorithm that is not possible with these ranks or machines is invalid_argument.
  Status allreduce(const Input& x, const Output& y, ReduceOp op = ReduceOp::average,
                   AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic);
  Result<Handle> allreduce_start(const Input& x, const Output& y, ReduceOp op = ReduceOp::average,
                                 AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic);

  // An allreduce among the ranks of each machine. All ranks of the context call it, but machines do
  // not wait for each other. For other operations inside a machine, use split(machine_rank()).
  Status local_allreduce(const Input& x, const Output& y, ReduceOp op = ReduceOp::average);
  Result<Handle> local_allreduce_start(const Input& x, const Output& y,
                                       ReduceOp op = ReduceOp::average);

  // The y of every rank := the root's x. On other ranks than the root, x is not read and may be
  // empty.
  Status broadcast(const Input& x, const Output& y, Rank root);
  Result<Handle> broadcast_start(const Input& x, const Output& y, Rank root);

  Status barrier();
  Result<Handle> barrier_start();

  // y := the x of all ranks, one after another by rank. `counts`: elements from each rank; empty:
  // x.count from each. y.count is the sum of the counts. In place: x is this rank's block of y.
  Status allgather(const Input& x, const Output& y, std::span<const std::size_t> counts = {});
  Result<Handle> allgather_start(const Input& x, const Output& y,
                                 std::span<const std::size_t> counts = {});

  // y := this rank's block of the reduction of the x of all ranks. `counts`: elements of each
  // rank's block; their sum is x.count. If `counts` is empty, block r of n begins at element
  // r * x.count / n, rounded down: of 10 elements 3 ranks have 3, 3 and 4. In place: y is this rank's
  // block of x.
  Status reduce_scatter(const Input& x, const Output& y, ReduceOp op = ReduceOp::average,
                        std::span<const std::size_t> counts = {});
  Result<Handle> reduce_scatter_start(const Input& x, const Output& y,
                                      ReduceOp op = ReduceOp::average,
                                      std::span<const std::size_t> counts = {});

  // The root's y := the reduction of the x of all ranks. On other ranks, y is not written and may
  // be empty.
  Status reduce(const Input& x, const Output& y, Rank root, ReduceOp op = ReduceOp::average);
  Result<Handle> reduce_start(const Input& x, const Output& y, Rank root,
                              ReduceOp op = ReduceOp::average);

  // The root's y := the x of all ranks, one after another by rank, with `counts` as for allgather.
  // On other ranks, y is not written and may be empty, and `counts` is not read.
  Status gather(const Input& x, const Output& y, Rank root,
                std::span<const std::size_t> counts = {});
  Result<Handle> gather_start(const Input& x, const Output& y, Rank root,
                              std::span<const std::size_t> counts = {});

  // y := this rank's block of the root's x. `counts`: elements of each rank's block, whose sum is
  // x.count; empty: y.count for each. On other ranks than the root, x and `counts` are not read. In
  // place at the root: y is the root's block of x.
  Status scatter(const Input& x, const Output& y, Rank root,
                 std::span<const std::size_t> counts = {});
  Result<Handle> scatter_start(const Input& x, const Output& y, Rank root,
                               std::span<const std::size_t> counts = {});

  // Block r of y := block rank() of rank r's x. In alltoall, x and y have size() equal blocks. In
  // alltoallv, the counts are the elements to and from each rank; what rank i sends to rank j is
  // what j receives from i. In place, the counts of both directions must be equal.
  Status alltoall(const Input& x, const Output& y);
  Result<Handle> alltoall_start(const Input& x, const Output& y);
  Status alltoallv(const Input& x, const Output& y, std::span<const std::size_t> send_counts,
                   std::span<const std::size_t> receive_counts);
  Result<Handle> alltoallv_start(const Input& x, const Output& y,
                                 std::span<const std::size_t> send_counts,
                                 std::span<const std::size_t> receive_counts);

  // The receiver's y := the sender's x. The k-th send to a rank meets the k-th recv of that rank
  // from the sender; both have the same type and size. A send of at most Config::eager_bytes ends
  // when the receiver has room for it. A larger send ends when the receiver has read it.
  Status send(const Input& x, Rank to);
  Result<Handle> send_start(const Input& x, Rank to);
  Status recv(const Output& y, Rank from);
  Result<Handle> recv_start(const Output& y, Rank from);
  // Whether a message of `from` has arrived for which no recv has been called. Waits at most for the
  // rank to join. A receiver that takes messages of any rank asks for each, and then calls recv.
  [[nodiscard]] Result<bool> has_message(Rank from);

  // y := self_weight x + pair_weight x_peer. Both ranks call it, each with its own weights.
  // Floating types.
  Status pair_average(const Input& x, const Output& y, Rank peer, double self_weight = 0.5,
                      double pair_weight = 0.5);
  Result<Handle> pair_average_start(const Input& x, const Output& y, Rank peer,
                                    double self_weight = 0.5, double pair_weight = 0.5);

  // y := the mean of x over the group (Prague's partial all-reduce), with the same bits on all of
  // its ranks. Only the ranks of the group call it, each with `ranks` in any order. Groups without
  // a common rank run at the same time. Floating types.
  Status group_average(const Input& x, const Output& y, std::span<const Rank> ranks);
  Result<Handle> group_average_start(const Input& x, const Output& y, std::span<const Rank> ranks);

  // Makes a window (weft/window.h) over the present graph, whose edges say who writes to whom.
  // Collective: all ranks give the same name, count, type and options. The tensor is shared with
  // the window and must outlive it. While windows exist the graph cannot be changed. Names that are
  // free again after win_free may be used for a window of another shape.
  Result<Window> win_create(const Output& tensor, std::string_view name,
                            const WindowOptions& options = {});
  // The window of that name.
  [[nodiscard]] Result<Window> window(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> window_names() const;  // ascending
  // Ends the window. Collective. If a rank still uses it (operations under way, mutexes held), it
  // is an error on all ranks, and the window goes on.
  Status win_free(std::string_view name);
  Status win_free_all();
  // Waits until the operations of all ranks on all windows have ended. Collective.
  Status win_fence();

  // Operations that ranks submit by name, in any order (weft/named.h). Collective. The object has
  // connections and a thread of its own.
  Result<Named> named(const NamedOptions& options = {});

  // A context of the ranks that give the same color, numbered anew by (key, rank); null for
  // kNoColor. Collective over this context. The new context is independent of this one: each has
  // its own order of operations and its own failures. The death of a rank concerns only contexts of
  // which it is a rank.
  Result<std::unique_ptr<Context>> split(int color, int key = 0);

  // A context of the ranks that are left, numbered anew in their order. Collective over them. This context
  // may have failed because of the others, which died or left; it is of no further use. A rank that
  // dies during the call is not in the new context, or its death is an error of the first operations there, and
  // then all call shrink() again, on that context. Ranks may hear of a death at different times, so each waits for the
  // others at most until its deadline. MPI's fault tolerance (ULFM) calls this MPIX_Comm_shrink.
  Result<std::unique_ptr<Context>> shrink();

  // Lets in ranks that have come back: with OnDeath::skip a new process may take the number of a rank that is gone
  // (`weft run --restart`). Collective over members(), between two steps: no operation is in flight, and
  // windows and named operations of before are of no further use if somebody comes in. A rank that has come back
  // calls it first, and waits here until the others call it, at most until its deadline. `state`: what a rank
  // needs to go on, such as the model, the optimizer and the number of the step; the same sizes and types on
  // all ranks, in host memory. A rank that comes in takes that of its first in-neighbor that is there,
  // and compares checksums (CRC32C); it has the graph of the others. Other ranks keep theirs. Returns the ranks that came in, ascending; as
  // long as nobody waits, the call is an allreduce of 8 bytes.
  Result<std::vector<Rank>> admit(std::span<const Output> state);

  // What this context holds and has done; for tools and tests.
  struct Usage {
    std::size_t connected_peers = 0;
    std::size_t endpoint_bytes = 0;  // message rings, this rank's share
    std::size_t scratch_bytes = 0;   // plans' scratch and staging
    std::size_t plans_cached = 0;
    std::uint64_t operations = 0;  // completed
    // Payload that operations sent to ranks that do not share this rank's memory, each byte once.
    std::uint64_t network_bytes = 0;
    std::uint64_t allocations = 0;  // made by operations after their first use of a shape
  };
  [[nodiscard]] Usage usage() const;
  // Why the last operation ran as it did: algorithm, path per peer, memory. One line each.
  [[nodiscard]] std::string explain() const;

 private:
  explicit Context(std::shared_ptr<Core> core);
  [[nodiscard]] std::shared_ptr<Core> core() const;

  std::shared_ptr<Core> core_;        // handles hold it weakly
  std::shared_ptr<Healing> healing_;  // null: OnDeath::fail
};

}  // namespace weft
