// context: the public face. Each call fills a Request and hands it to the core.
#include "engine/context/context.h"

#include "engine/context/core.h"
#include "engine/context/healing.h"

namespace weft {

Context::Context(std::shared_ptr<Core> core) : core_(std::move(core)) {
  if (core_->config().on_death == OnDeath::skip) healing_ = std::make_shared<Healing>(core_);
}

Context::~Context() {
  if (is_forked_child()) {
    // Its threads and connections are the parent's.
    (void)new std::pair(std::move(core_), std::move(healing_));
  } else if (healing_) {
    healing_->close();
  } else if (core_) {
    core_->close();
  }
}

std::shared_ptr<Context::Core> Context::core() const {
  return healing_ ? healing_->core() : core_;
}

Result<std::unique_ptr<Context>> Context::create(const Config& config,
                                                 std::shared_ptr<Store> store) {
  if (is_forked_child()) return forked_child_error("Context::create");
  if (store == nullptr) return Status(Code::invalid_argument, "Context::create: the store is null");
  mark_process();
  WEFT_ASSIGN(std::shared_ptr<Core> core, Core::open(config, std::move(store)));
  return std::unique_ptr<Context>(new Context(std::move(core)));
}

Result<std::unique_ptr<Context>> Context::from_environment() {
  if (is_forked_child()) return forked_child_error("Context::from_environment");
  WEFT_ASSIGN(Config config, Config::from_environment());
  // Under PMIx the server tells the rank later.
  const LogScope scope({config.log, config.launcher == Launcher::pmix ? kNoRank : config.rank});
  WEFT_ASSIGN(std::shared_ptr<Store> store, open_store(config));
  return create(config, std::move(store));
}

const Config& Context::config() const {
  return healing_ ? healing_->config() : core_->config();
}
Rank Context::rank() const {
  return config().rank;
}
int Context::size() const {
  return config().size;
}
Status Context::set_graph(Graph graph, bool weighted) {
  if (is_forked_child()) return forked_child_error("set_graph");
  return healing_ ? healing_->set_graph(graph, weighted) : core_->set_graph(graph, weighted);
}
const Graph& Context::graph() const {
  return healing_ ? healing_->graph() : core_->graph();
}
std::vector<Rank> Context::members() const {
  if (is_forked_child()) return {};
  return healing_ ? healing_->members() : core_->members();
}
namespace {
Context::Placement placement_or_none(Context::Core& core) {
  if (is_forked_child()) return {};
  Result<Context::Placement> placement = core.placement();
  return placement.ok() ? *std::move(placement) : Context::Placement();
}
}  // namespace

Result<Context::Placement> Context::placement() const {
  if (is_forked_child()) return forked_child_error("placement");
  return core()->placement();
}
int Context::local_rank() const {
  return placement_or_none(*core()).local_rank;
}
int Context::local_size() const {
  return placement_or_none(*core()).local_size;
}
int Context::machine_rank() const {
  return placement_or_none(*core()).machine_rank;
}
int Context::machine_size() const {
  return placement_or_none(*core()).machine_size;
}
bool Context::is_homogeneous() const {
  return placement_or_none(*core()).is_homogeneous;
}
Status Context::set_machine_graph(Graph graph, bool weighted) {
  if (is_forked_child()) return forked_child_error("set_machine_graph");
  if (healing_) WEFT_RETURN_IF_ERROR(healing_->check_whole("set_machine_graph"));
  return core()->set_machine_graph(graph, weighted);
}
std::optional<Graph> Context::machine_graph() const {
  if (is_forked_child()) return std::nullopt;
  return core()->machine_graph();
}
Result<Window> Context::win_create(const Output& tensor, std::string_view name,
                                   const WindowOptions& options) {
  if (is_forked_child()) return forked_child_error("win_create");
  if (healing_) WEFT_RETURN_IF_ERROR(healing_->check_whole("win_create"));
  const std::shared_ptr<Core> core = this->core();
  return core->windows().create(tensor, name, options, core->shared_lane());
}
Result<Window> Context::window(std::string_view name) const {
  if (is_forked_child()) return forked_child_error("window");
  return core()->windows().find(name);
}
std::shared_ptr<WindowObject> WindowObject::of(const Context& context, std::string_view name) {
  return Context::Core::window_of(context, name);
}
std::vector<std::string> Context::window_names() const {
  if (is_forked_child()) return {};
  return core()->windows().names();
}
Status Context::win_free(std::string_view name) {
  if (is_forked_child()) return forked_child_error("win_free");
  return core()->windows().free(name);
}
Status Context::win_free_all() {
  if (is_forked_child()) return forked_child_error("win_free_all");
  return core()->windows().free_all();
}
Status Context::win_fence() {
  if (is_forked_child()) return forked_child_error("win_fence");
  return core()->windows().fence();
}
Result<bool> Context::has_message(Rank from) {
  if (is_forked_child()) return forked_child_error("has_message");
  return healing_ ? healing_->has_message(from) : core_->has_message(from);
}
Context::Usage Context::usage() const {
  if (is_forked_child()) return {};
  return core()->usage();
}
std::string Context::explain() const {
  if (is_forked_child()) return forked_child_error("explain").to_string();
  return core()->explain();
}

namespace {
Status check_call(const Request& request) {
  return is_forked_child() ? forked_child_error(name(request.collective)) : check_known(request);
}
}  // namespace

Status Context::run(const Request& request) {
  WEFT_RETURN_IF_ERROR(check_call(request));
  return healing_ ? healing_->run(request) : core_->run(request);
}
Result<Handle> Context::start(const Request& request) {
  WEFT_RETURN_IF_ERROR(check_call(request));
  return healing_ ? healing_->start(request) : core_->start(request);
}

Result<std::optional<Handle>> Context::run_for(const Request& request, std::int64_t patience_ns) {
  WEFT_RETURN_IF_ERROR(check_call(request));
  return healing_ ? healing_->run_for(request, patience_ns) : core_->run_for(request, patience_ns);
}

Result<Prepared> Context::prepare(const Request& request) {
  WEFT_RETURN_IF_ERROR(check_call(request));
  return healing_ ? healing_->prepare(request) : core_->prepare(request);
}

// A name, the parameters, and the members of the request.
#define WEFT_OPERATION(function, parameters, ...)       \
  Status Context::function parameters {                 \
    return run({__VA_ARGS__});                          \
  }                                                     \
  Result<Handle> Context::function##_start parameters { \
    return start({__VA_ARGS__});                        \
  }

WEFT_OPERATION(neighbor_allreduce,
               (const Input& x, const Output& y, const NeighborWeights& weights),
               .collective = Collective::neighbor_allreduce, .input = x, .output = y,
               .weights = &weights)
WEFT_OPERATION(hierarchical_neighbor_allreduce,
               (const Input& x, const Output& y, const NeighborWeights& machine_weights),
               .collective = Collective::hierarchical_neighbor_allreduce, .input = x, .output = y,
               .weights = &machine_weights)
WEFT_OPERATION(neighbor_allgather,
               (const Input& x, const Output& y, std::span<const std::size_t> counts),
               .collective = Collective::neighbor_allgather, .input = x, .output = y,
               .counts = counts)
WEFT_OPERATION(allreduce,
               (const Input& x, const Output& y, ReduceOp op, AllreduceAlgorithm algorithm),
               .collective = Collective::allreduce, .input = x, .output = y, .op = op,
               .algorithm = algorithm)
WEFT_OPERATION(local_allreduce, (const Input& x, const Output& y, ReduceOp op),
               .collective = Collective::local_allreduce, .input = x, .output = y, .op = op)
WEFT_OPERATION(broadcast, (const Input& x, const Output& y, Rank root),
               .collective = Collective::broadcast, .input = x, .output = y, .root = root)
WEFT_OPERATION(barrier, (), .collective = Collective::barrier)
WEFT_OPERATION(allgather, (const Input& x, const Output& y, std::span<const std::size_t> counts),
               .collective = Collective::allgather, .input = x, .output = y, .counts = counts)
WEFT_OPERATION(reduce_scatter,
               (const Input& x, const Output& y, ReduceOp op, std::span<const std::size_t> counts),
               .collective = Collective::reduce_scatter, .input = x, .output = y, .op = op,
               .counts = counts)
WEFT_OPERATION(reduce, (const Input& x, const Output& y, Rank root, ReduceOp op),
               .collective = Collective::reduce, .input = x, .output = y, .op = op, .root = root)
WEFT_OPERATION(gather,
               (const Input& x, const Output& y, Rank root, std::span<const std::size_t> counts),
               .collective = Collective::gather, .input = x, .output = y, .root = root,
               .counts = counts)
WEFT_OPERATION(scatter,
               (const Input& x, const Output& y, Rank root, std::span<const std::size_t> counts),
               .collective = Collective::scatter, .input = x, .output = y, .root = root,
               .counts = counts)
WEFT_OPERATION(alltoall, (const Input& x, const Output& y), .collective = Collective::alltoall,
               .input = x, .output = y)
WEFT_OPERATION(alltoallv,
               (const Input& x, const Output& y, std::span<const std::size_t> send_counts,
                std::span<const std::size_t> receive_counts),
               .collective = Collective::alltoall, .input = x, .output = y, .counts = send_counts,
               .receive_counts = receive_counts)
WEFT_OPERATION(send, (const Input& x, Rank to), .collective = Collective::send, .input = x,
               .peer = to)
WEFT_OPERATION(recv, (const Output& y, Rank from), .collective = Collective::send, .output = y,
               .peer = from, .receives = true)
WEFT_OPERATION(pair_average,
               (const Input& x, const Output& y, Rank peer, double self_weight, double pair_weight),
               .collective = Collective::pair_average, .input = x, .output = y, .peer = peer,
               .self_weight = self_weight, .pair_weight = pair_weight)
WEFT_OPERATION(group_average, (const Input& x, const Output& y, std::span<const Rank> ranks),
               .collective = Collective::group_average, .input = x, .output = y, .group = ranks)

#undef WEFT_OPERATION

Result<Named> Context::named(const NamedOptions& options) {
  if (is_forked_child()) return forked_child_error("named");
  if (healing_) WEFT_RETURN_IF_ERROR(healing_->check_whole("named"));
  return core()->named(options);
}

Result<std::unique_ptr<Context>> Context::split(int color, int key) {
  if (is_forked_child()) return forked_child_error("split");
  WEFT_ASSIGN(std::shared_ptr<Core> core,
              healing_ ? healing_->split(color, key) : core()->split(color, key));
  if (core == nullptr) return std::unique_ptr<Context>();
  return std::unique_ptr<Context>(new Context(std::move(core)));
}

Result<std::vector<Rank>> Context::admit(std::span<const Output> state) {
  if (is_forked_child()) return forked_child_error("admit");
  if (!healing_)
    return Status(Code::invalid_argument,
                  "admit: only a context of OnDeath::skip (WEFT_ON_DEATH=skip) goes on "
                  "when ranks die and lets ranks in");
  return healing_->admit(state);
}

Result<std::unique_ptr<Context>> Context::shrink() {
  if (is_forked_child()) return forked_child_error("shrink");
  // A death that is in nobody's way yet is agreed on here.
  if (healing_) WEFT_RETURN_IF_ERROR(healing_->run({.collective = Collective::barrier}));
  WEFT_ASSIGN(std::shared_ptr<Core> core, this->core()->shrink());
  return std::unique_ptr<Context>(new Context(std::move(core)));
}

}  // namespace weft
