// The public face: each call fills an invocation and hands it to the core.
#include "engine/context/context.h"

#include "engine/context/core.h"

namespace weft {
namespace {

Asking asking_of(const Input& x, const Output& y, const NeighborWeights& weights) {
  const bool names_all = weights.self && weights.sources && weights.destinations;
  const bool names_none = !weights.self && !weights.sources && !weights.destinations;
  return {.is_whole = (names_all || names_none) && !weights.push_sum,
          .collective = Collective::neighbor_allreduce,
          .input = x,
          .output = y,
          .weights = names_all ? &weights : nullptr};
}

}  // namespace

Handle::Handle(std::shared_ptr<PendingOperation> operation) : operation_(std::move(operation)) {}

bool Handle::test() {
  if (operation_ == nullptr || operation_->done.load(std::memory_order_acquire)) return true;
  const auto core = operation_->core.lock();
  return core == nullptr || core->test(*operation_);
}

Status Handle::wait() {
  if (operation_ == nullptr) return Status(Code::invalid_argument, "wait: the handle is empty");
  if (operation_->done.load(std::memory_order_acquire)) return operation_->status;
  if (const auto core = operation_->core.lock()) return core->wait(*operation_);
  return Status(Code::closed, "wait: the context of this operation was closed");
}

void Handle::then(std::function<void(const Status&)> call) {
  const auto core = operation_ == nullptr ? nullptr : operation_->core.lock();
  if (core != nullptr) {
    core->then(operation_, std::move(call));
  } else {
    call(wait());
  }
}

Context::Context(std::shared_ptr<Core> core) : core_(std::move(core)) {}

Context::~Context() {
  if (core_) core_->close();
}

Result<std::unique_ptr<Context>> Context::create(const Config& config,
                                                 std::shared_ptr<Store> store) {
  if (store == nullptr) return Status(Code::invalid_argument, "Context::create: the store is null");
  WEFT_ASSIGN(std::shared_ptr<Core> core, Core::open(config, std::move(store)));
  return std::unique_ptr<Context>(new Context(std::move(core)));
}

Result<std::unique_ptr<Context>> Context::from_environment() {
  WEFT_ASSIGN(Config config, Config::from_environment());
  // Under PMIx the server tells the rank later.
  const LogScope scope({config.log, config.launcher == Launcher::pmix ? kNoRank : config.rank});
  WEFT_ASSIGN(std::shared_ptr<Store> store, open_store(config));
  return create(config, std::move(store));
}

Rank Context::rank() const {
  return core_->config().rank;
}
int Context::size() const {
  return core_->config().size;
}
const Config& Context::config() const {
  return core_->config();
}
Status Context::set_graph(Graph graph, bool weighted) {
  return core_->set_graph(std::move(graph), weighted);
}
const Graph& Context::graph() const {
  return core_->graph();
}
namespace {
Context::Placement placement_or_none(Context::Core& core) {
  Result<Context::Placement> placement = core.placement();
  return placement.ok() ? *std::move(placement) : Context::Placement();
}
}  // namespace

Result<Context::Placement> Context::placement() const {
  return core_->placement();
}
int Context::local_rank() const {
  return placement_or_none(*core_).local_rank;
}
int Context::local_size() const {
  return placement_or_none(*core_).local_size;
}
int Context::machine_rank() const {
  return placement_or_none(*core_).machine_rank;
}
int Context::machine_size() const {
  return placement_or_none(*core_).machine_size;
}
bool Context::is_homogeneous() const {
  return placement_or_none(*core_).is_homogeneous;
}
Status Context::set_machine_graph(Graph graph, bool weighted) {
  return core_->set_machine_graph(std::move(graph), weighted);
}
std::optional<Graph> Context::machine_graph() const {
  return core_->machine_graph();
}
Context::Usage Context::usage() const {
  return core_->usage();
}
std::string Context::explain() const {
  return core_->explain();
}

Status Context::neighbor_allreduce(const Input& x, const Output& y,
                                   const NeighborWeights& weights) {
  return core_->run(asking_of(x, y, weights), [&](Invocation& r) {
    return core_->invoke_neighbor_allreduce(r, x, y, weights);
  });
}
Result<Handle> Context::neighbor_allreduce_start(const Input& x, const Output& y,
                                                 const NeighborWeights& weights) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_neighbor_allreduce(r, x, y, weights); });
}

Status Context::hierarchical_neighbor_allreduce(const Input& x, const Output& y,
                                                const NeighborWeights& machine_weights) {
  return core_->run(
      [&](Invocation& r) { return core_->invoke_hierarchical(r, x, y, machine_weights); });
}
Result<Handle> Context::hierarchical_neighbor_allreduce_start(
    const Input& x, const Output& y, const NeighborWeights& machine_weights) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_hierarchical(r, x, y, machine_weights); });
}

Status Context::neighbor_allgather(const Input& x, const Output& y,
                                   std::span<const std::size_t> counts) {
  return core_->run(
      [&](Invocation& r) { return core_->invoke_neighbor_allgather(r, x, y, counts); });
}
Result<Handle> Context::neighbor_allgather_start(const Input& x, const Output& y,
                                                 std::span<const std::size_t> counts) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_neighbor_allgather(r, x, y, counts); });
}

Status Context::allreduce(const Input& x, const Output& y, ReduceOp op,
                          AllreduceAlgorithm algorithm) {
  return core_->run(Asking{true, Collective::allreduce, x, y, kNoRank, op, algorithm},
                    [&](Invocation& r) { return core_->invoke_allreduce(r, x, y, op, algorithm); });
}
Result<Handle> Context::allreduce_start(const Input& x, const Output& y, ReduceOp op,
                                        AllreduceAlgorithm algorithm) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_allreduce(r, x, y, op, algorithm); });
}

Status Context::local_allreduce(const Input& x, const Output& y, ReduceOp op) {
  return core_->run(Asking{true, Collective::local_allreduce, x, y, kNoRank, op},
                    [&](Invocation& r) { return core_->invoke_local_allreduce(r, x, y, op); });
}
Result<Handle> Context::local_allreduce_start(const Input& x, const Output& y, ReduceOp op) {
  return core_->start([&](Invocation& r) { return core_->invoke_local_allreduce(r, x, y, op); });
}

Status Context::broadcast(const Input& x, const Output& y, Rank root) {
  return core_->run(Asking{true, Collective::broadcast, x, y, root},
                    [&](Invocation& r) { return core_->invoke_broadcast(r, x, y, root); });
}
Result<Handle> Context::broadcast_start(const Input& x, const Output& y, Rank root) {
  return core_->start([&](Invocation& r) { return core_->invoke_broadcast(r, x, y, root); });
}

Status Context::barrier() {
  return core_->run(Asking{true, Collective::barrier, {}, {}},
                    [&](Invocation& r) { return core_->invoke_barrier(r); });
}
Result<Handle> Context::barrier_start() {
  return core_->start([&](Invocation& r) { return core_->invoke_barrier(r); });
}

Status Context::allgather(const Input& x, const Output& y, std::span<const std::size_t> counts) {
  return core_->run(Asking{counts.empty(), Collective::allgather, x, y},
                    [&](Invocation& r) { return core_->invoke_allgather(r, x, y, counts); });
}
Result<Handle> Context::allgather_start(const Input& x, const Output& y,
                                        std::span<const std::size_t> counts) {
  return core_->start([&](Invocation& r) { return core_->invoke_allgather(r, x, y, counts); });
}

Status Context::reduce_scatter(const Input& x, const Output& y, ReduceOp op,
                               std::span<const std::size_t> counts) {
  return core_->run(
      Asking{counts.empty(), Collective::reduce_scatter, x, y, kNoRank, op},
      [&](Invocation& r) { return core_->invoke_reduce_scatter(r, x, y, op, counts); });
}
Result<Handle> Context::reduce_scatter_start(const Input& x, const Output& y, ReduceOp op,
                                             std::span<const std::size_t> counts) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_reduce_scatter(r, x, y, op, counts); });
}

Status Context::reduce(const Input& x, const Output& y, Rank root, ReduceOp op) {
  return core_->run(Asking{true, Collective::reduce, x, y, root, op},
                    [&](Invocation& r) { return core_->invoke_reduce(r, x, y, root, op); });
}
Result<Handle> Context::reduce_start(const Input& x, const Output& y, Rank root, ReduceOp op) {
  return core_->start([&](Invocation& r) { return core_->invoke_reduce(r, x, y, root, op); });
}

Status Context::gather(const Input& x, const Output& y, Rank root,
                       std::span<const std::size_t> counts) {
  return core_->run(Asking{counts.empty(), Collective::gather, x, y, root},
                    [&](Invocation& r) { return core_->invoke_gather(r, x, y, root, counts); });
}
Result<Handle> Context::gather_start(const Input& x, const Output& y, Rank root,
                                     std::span<const std::size_t> counts) {
  return core_->start([&](Invocation& r) { return core_->invoke_gather(r, x, y, root, counts); });
}

Status Context::scatter(const Input& x, const Output& y, Rank root,
                        std::span<const std::size_t> counts) {
  return core_->run(Asking{counts.empty(), Collective::scatter, x, y, root},
                    [&](Invocation& r) { return core_->invoke_scatter(r, x, y, root, counts); });
}
Result<Handle> Context::scatter_start(const Input& x, const Output& y, Rank root,
                                      std::span<const std::size_t> counts) {
  return core_->start([&](Invocation& r) { return core_->invoke_scatter(r, x, y, root, counts); });
}

Status Context::alltoall(const Input& x, const Output& y) {
  return alltoallv(x, y, {}, {});
}
Result<Handle> Context::alltoall_start(const Input& x, const Output& y) {
  return alltoallv_start(x, y, {}, {});
}
Status Context::alltoallv(const Input& x, const Output& y, std::span<const std::size_t> send_counts,
                          std::span<const std::size_t> receive_counts) {
  return core_->run(
      Asking{send_counts.empty() && receive_counts.empty(), Collective::alltoall, x, y},
      [&](Invocation& r) { return core_->invoke_alltoall(r, x, y, send_counts, receive_counts); });
}
Result<Handle> Context::alltoallv_start(const Input& x, const Output& y,
                                        std::span<const std::size_t> send_counts,
                                        std::span<const std::size_t> receive_counts) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_alltoall(r, x, y, send_counts, receive_counts); });
}

Status Context::send(const Input& x, Rank to) {
  return core_->run_partial([&](Invocation& r) { return core_->invoke_send(r, x, to); });
}
Result<Handle> Context::send_start(const Input& x, Rank to) {
  return core_->start_partial([&](Invocation& r) { return core_->invoke_send(r, x, to); });
}

Status Context::recv(const Output& y, Rank from) {
  return core_->run_partial([&](Invocation& r) { return core_->invoke_recv(r, y, from); });
}
Result<Handle> Context::recv_start(const Output& y, Rank from) {
  return core_->start_partial([&](Invocation& r) { return core_->invoke_recv(r, y, from); });
}

Status Context::pair_average(const Input& x, const Output& y, Rank peer, double self_weight,
                             double pair_weight) {
  return core_->run_partial([&](Invocation& r) {
    return core_->invoke_pair_average(r, x, y, peer, self_weight, pair_weight);
  });
}
Result<Handle> Context::pair_average_start(const Input& x, const Output& y, Rank peer,
                                           double self_weight, double pair_weight) {
  return core_->start_partial([&](Invocation& r) {
    return core_->invoke_pair_average(r, x, y, peer, self_weight, pair_weight);
  });
}

Status Context::group_average(const Input& x, const Output& y, std::span<const Rank> ranks) {
  return core_->run_partial(
      [&](Invocation& r) { return core_->invoke_group_average(r, x, y, ranks); });
}
Result<Handle> Context::group_average_start(const Input& x, const Output& y,
                                            std::span<const Rank> ranks) {
  return core_->start_partial(
      [&](Invocation& r) { return core_->invoke_group_average(r, x, y, ranks); });
}

Result<std::unique_ptr<Context>> Context::split(int color, int key) {
  WEFT_ASSIGN(std::shared_ptr<Core> core, core_->split(color, key));
  if (core == nullptr) return std::unique_ptr<Context>();
  return std::unique_ptr<Context>(new Context(std::move(core)));
}

}  // namespace weft
