// The public face: each call fills an invocation and hands it to the core.
#include "engine/context/context.h"

#include "engine/context/core.h"

namespace weft {

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
  WEFT_ASSIGN(const Config config, Config::from_environment());
  set_log(config.log, config.rank);
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
Context::Usage Context::usage() const {
  return core_->usage();
}
std::string Context::explain() const {
  return core_->explain();
}

Status Context::neighbor_allreduce(Input x, Output y, const NeighborWeights& weights) {
  return core_->run(
      [&](Invocation& r) { return core_->invoke_neighbor_allreduce(r, x, y, weights); });
}
Result<Handle> Context::neighbor_allreduce_start(Input x, Output y,
                                                 const NeighborWeights& weights) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_neighbor_allreduce(r, x, y, weights); });
}

Status Context::neighbor_allgather(Input x, Output y, std::span<const std::size_t> counts) {
  return core_->run(
      [&](Invocation& r) { return core_->invoke_neighbor_allgather(r, x, y, counts); });
}
Result<Handle> Context::neighbor_allgather_start(Input x, Output y,
                                                 std::span<const std::size_t> counts) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_neighbor_allgather(r, x, y, counts); });
}

Status Context::allreduce(Input x, Output y, ReduceOp op, AllreduceAlgorithm algorithm) {
  return core_->run([&](Invocation& r) { return core_->invoke_allreduce(r, x, y, op, algorithm); });
}
Result<Handle> Context::allreduce_start(Input x, Output y, ReduceOp op,
                                        AllreduceAlgorithm algorithm) {
  return core_->start(
      [&](Invocation& r) { return core_->invoke_allreduce(r, x, y, op, algorithm); });
}

Status Context::broadcast(Input x, Output y, Rank root) {
  return core_->run([&](Invocation& r) { return core_->invoke_broadcast(r, x, y, root); });
}
Result<Handle> Context::broadcast_start(Input x, Output y, Rank root) {
  return core_->start([&](Invocation& r) { return core_->invoke_broadcast(r, x, y, root); });
}

Status Context::barrier() {
  return core_->run([&](Invocation& r) { return core_->invoke_barrier(r); });
}
Result<Handle> Context::barrier_start() {
  return core_->start([&](Invocation& r) { return core_->invoke_barrier(r); });
}

}  // namespace weft
