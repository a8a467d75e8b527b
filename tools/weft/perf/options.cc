// The command line's words turned into values.
#include "tools/weft/perf/options.h"

#include <fmt/format.h>

#include "tools/weft/common/bytes.h"

namespace weft {
namespace {

constexpr int kMostPerfRanks = 256;  // processes on one machine
constexpr int kMostInFlight = 100'000;
constexpr double kMostComputeMs = 60'000;
constexpr std::size_t kMostBytes = std::size_t{1} << 34;  // of one rank's input
constexpr std::uint64_t kMostSteps = 32;  // of a schedule, whose mean degree is told

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

Status one_of(std::string_view option, std::string_view given,
              std::initializer_list<std::string_view> known) {
  std::string list;
  for (const std::string_view word : known) {
    if (word == given) return {};
    list += fmt::format("{}{}", list.empty() ? "" : ", ", word);
  }
  return invalid(fmt::format("--{} {}: there are {}", option, given, list));
}

Result<std::vector<std::size_t>> sizes_from(std::string_view list, std::size_t element) {
  std::vector<std::size_t> sizes;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    WEFT_ASSIGN(const std::size_t bytes, bytes_of("--sizes", word));
    if (bytes > kMostBytes) return invalid(fmt::format("--sizes {}: more than 16G", word));
    if (bytes % element != 0) {
      return invalid(
          fmt::format("--sizes {}: not a whole number of elements of {} bytes", word, element));
    }
    sizes.push_back(bytes);
  }
  if (sizes.empty()) return invalid("--sizes is empty");
  return sizes;
}

// The weight of edge from -> to at a step. It differs from step to step and stays positive; the self
// weight keeps the sum of a row at 1.
double turned(double weight, Rank from, Rank to, std::uint64_t step) {
  const std::uint64_t turn =
      (static_cast<std::uint64_t>(from) + 3 * static_cast<std::uint64_t>(to) + step) % 4;
  return weight * (0.5 + static_cast<double>(turn) / 8);
}

// Ranks of different played machines use a network, ranks of one machine use memory.
Status check_hosts(const PerfArguments& asked) {
  if (asked.hosts < 1 || asked.hosts > asked.ranks) {
    return invalid(fmt::format("--hosts {}: expected 1…{}, the ranks", asked.hosts, asked.ranks));
  }
  if (asked.hosts == 1 || asked.transport != "shm") return {};
  return invalid(fmt::format("--hosts {}: {}", asked.hosts, kShmEnds));
}

// The graph's edges with weights that change every step.
Schedule rotating(const Graph& graph) {
  return Schedule({graph.name() + " rotating", graph.size(), 4, 4},
                  [graph](std::uint64_t step, Rank rank) {
                    LocalView view = graph.local_view(rank);
                    view.self_weight = 1;
                    for (Peer& peer : view.in) {
                      peer.weight = turned(peer.weight, peer.rank, rank, step);
                      view.self_weight -= peer.weight;
                    }
                    for (Peer& peer : view.out) {
                      peer.weight = turned(peer.weight, rank, peer.rank, step);
                    }
                    return view;
                  });
}

struct GraphAndSchedule {
  Graph graph;
  Schedule schedule;
};

Result<GraphAndSchedule> talk(const PerfArguments& asked, Collective collective) {
  const int nodes =
      collective == Collective::hierarchical_neighbor_allreduce ? asked.hosts : asked.ranks;
  const Result<Graph> graph = make_graph(asked.graph, nodes);
  if (graph.ok()) return GraphAndSchedule{*graph, rotating(*graph)};
  if (!asked.dynamic) return graph.status();
  const Result<Schedule> schedule = make_schedule(asked.graph, nodes);
  if (!schedule.ok()) return graph.status();
  WEFT_ASSIGN(const Graph first, step_graph(*schedule, 0));
  return GraphAndSchedule{first, *schedule};
}

Status check_combination(const PerfArguments& asked, Collective collective,
                         std::optional<WindowOp> window, DataType type) {
  const bool is_weighted = has<kHasWeights>(collective);
  if (asked.dynamic && !is_weighted) {
    return invalid(fmt::format("--dynamic: {} has no weights", asked.operation));
  }
  if (asked.in_place && !is_weighted && collective != Collective::allreduce &&
      collective != Collective::broadcast) {
    return invalid(fmt::format("--in-place: {} is not measured in such a form", asked.operation));
  }
  if (!asked.against.empty() && type != DataType::f32) {
    return invalid("--against: peers are measured with --type f32");
  }
  if (!asked.against.empty() && asked.dynamic) {
    return invalid("--against: peers have no --dynamic form");
  }
  if (!asked.against.empty() && collective == Collective::hierarchical_neighbor_allreduce) {
    return invalid(fmt::format("--against: peers have no {}", asked.operation));
  }
  if (asked.algorithm != "auto" && collective != Collective::allreduce) {
    return invalid(fmt::format("--algorithm: {} has none to choose", asked.operation));
  }
  if (asked.bits != "auto" &&
      (window || !has<kSums>(collective) || asked.operation != name(collective)))
    return invalid(fmt::format("--bits: {} sums nothing that could have others", asked.operation));
  if (asked.compression != "none") {
    const bool has_slots = window == WindowOp::put || window == WindowOp::accumulate;
    if (window
            ? !has_slots
            : collective != Collective::allreduce && collective != Collective::neighbor_allreduce)
      return invalid(fmt::format("--compression: {} cannot be compressed", asked.operation));
    if (type != DataType::f32) return invalid("--compression: takes --type f32");
    if (asked.compression == "low_rank" && asked.operation != name(collective))
      return invalid("--compression low_rank: takes matrices, of allreduce or neighbor_allreduce");
    if (asked.check || asked.dynamic || asked.memory == "device")
      return invalid("--check, --dynamic, --memory device: not with --compression");
  }
  if (is_weighted) {
    return check_reduction(type, Reduction::weighted_sum);
  }
  return has<kHasOperator>(collective) ? check_reduction(type, Reduction::sum) : Status();
}

Status check_named(const PerfArguments& asked, DataType type) {
  if (type != DataType::f32) return invalid("--type: named is measured with f32");
  if (!asked.against.empty()) return invalid("--against: peers have no operations by name");
  if (asked.dynamic || asked.in_place || asked.memory_use)
    return invalid("--dynamic, --in-place, --memory-use: named is not measured in such a form");
  if (asked.compute_ms >= 0 && asked.compute_ms <= kMostComputeMs) return {};
  return invalid(fmt::format("--compute {}: expected 0…{} ms", asked.compute_ms, kMostComputeMs));
}

}  // namespace

std::vector<std::string> fit_settings(PerfArguments& asked, const Config& config) {
  std::vector<std::string> overridden;
  const auto setting = [&config](const char* name) {
    const std::string value = config.get(name).value();
    return value == Config{}.get(name).value() ? "" : fmt::format("{}={}", name, value);
  };
  const std::string transports = setting("WEFT_TRANSPORTS");
  const std::string interfaces = setting("WEFT_INTERFACES");
  if (asked.transport.empty()) {
    const std::string one = config.get("WEFT_TRANSPORTS").value();
    const bool is_one = one == "shm" || one == "ib" || one == "ucx";
    asked.transport = transports.empty() && interfaces.empty() ? "shm" : is_one ? one : "automatic";
  } else if (asked.transport != "automatic") {
    if (!transports.empty() && transports != "WEFT_TRANSPORTS=" + asked.transport)
      overridden.push_back(fmt::format("--transport {} overrides {}", asked.transport, transports));
    if (!interfaces.empty() && asked.transport == "shm")
      overridden.push_back("--transport shm opens no network: not used is " + interfaces);
  }
  if (asked.lanes != 0 && config.lanes != 0 && asked.lanes != config.lanes)
    overridden.push_back(
        fmt::format("--lanes {} overrides {}", asked.lanes, setting("WEFT_LANES")));
  if (asked.hosts > 1 && !config.host.empty())
    overridden.push_back(fmt::format("--hosts {} overrides {}", asked.hosts, setting("WEFT_HOST")));
  return overridden;
}

Result<PerfOptions> understand(const PerfArguments& asked) {
  if (asked.operation.empty()) {
    if (!measured_operation(asked.json).ok())
      return invalid("OPERATION is missing; weft perf --help names them");
    return invalid(
        fmt::format("OPERATION is missing: --json took {} for its file; write weft perf "
                    "{} --json",
                    asked.json, asked.json));
  }
  if (asked.ranks < 1 || asked.ranks > kMostPerfRanks) {
    return invalid(fmt::format("--ranks {}: expected 1…{}", asked.ranks, kMostPerfRanks));
  }
  // These name no collective operation; they go as neighbor_allreduce.
  const std::optional<WindowOp> window = window_op(asked.operation);
  const bool is_named = asked.operation == "named";
  const bool about_main = asked.operation == "limits" || asked.operation == "idle" || is_named;
  WEFT_ASSIGN(const Collective operation,
              measured_operation(about_main || window ? name(Collective::neighbor_allreduce)
                                                      : asked.operation));
  WEFT_ASSIGN(const DataType type, data_type(asked.type));
  WEFT_RETURN_IF_ERROR(one_of("transport", asked.transport, {"shm", "ib", "ucx", "automatic"}));
  if (asked.in_flight < 0 || asked.in_flight > kMostInFlight) {
    return invalid(fmt::format("--in-flight {}: expected 1…{}", asked.in_flight, kMostInFlight));
  }
  if (asked.in_flight != 0 && (window || operation != Collective::neighbor_allreduce))
    return invalid("--in-flight: only neighbor_allreduce is measured so");
  if (asked.prepared && (about_main || window || asked.in_flight != 0 || asked.memory_use))
    return invalid("--prepared: only an operation of its own is measured so");
  if (!asked.svg.empty() && (about_main || asked.in_flight != 0 || asked.memory_use))
    return invalid("--svg: only the rows of an operation are drawn");
  WEFT_RETURN_IF_ERROR(one_of("memory", asked.memory, {"weft", "private", "device"}));
  const bool is_on_host_alone =
      window && (*window == WindowOp::pages || *window == WindowOp::mutex);
  if (asked.memory == "device" && ((about_main && !is_named) || is_on_host_alone ||
                                   asked.in_flight != 0 || asked.memory_use || asked.dynamic)) {
    return invalid(fmt::format("--memory device: {} is not measured there", asked.operation));
  }
  WEFT_RETURN_IF_ERROR(
      one_of("type", asked.type,
             {"e4m3", "e5m2", "f16", "bf16", "f32", "f64", "i16", "i32", "i64", "bytes"}));
  if (!asked.against.empty()) {
    WEFT_RETURN_IF_ERROR(
        one_of("against", asked.against, {"openmpi", window ? "openmpi-create" : "openmpi-huge"}));
  }
  if (window) WEFT_RETURN_IF_ERROR(check_window(asked, *window));
  WEFT_RETURN_IF_ERROR(check_combination(asked, operation, window, type));
  WEFT_RETURN_IF_ERROR(check_hosts(asked));
  if (asked.lanes < 0 || asked.lanes > Config::kMostLanes) {
    return invalid(fmt::format("--lanes {}: expected 1…{}", asked.lanes, Config::kMostLanes));
  }
  WEFT_ASSIGN(const AllreduceAlgorithm algorithm, allreduce_algorithm(asked.algorithm));
  WEFT_RETURN_IF_ERROR(one_of("bits", asked.bits, {"auto", "fixed"}));
  WEFT_ASSIGN(const Bits which_bits, bits(asked.bits));
  WEFT_RETURN_IF_ERROR(check_bits(algorithm, which_bits));
  WEFT_ASSIGN(const Compression compressed, compression(asked.compression));
  WEFT_ASSIGN(const GraphAndSchedule found, talk(asked, operation));
  std::vector<std::size_t> sizes{0};
  if (operation != Collective::barrier && window != WindowOp::mutex) {
    WEFT_ASSIGN(sizes, sizes_from(asked.sizes, size_of(type)));
  }
  std::optional<TensorSet> tensors;
  if (is_named) {
    WEFT_RETURN_IF_ERROR(check_named(asked, type));
    WEFT_ASSIGN(tensors, tensor_set(asked.tensors));
  }
  return PerfOptions{operation,   algorithm,        which_bits, compressed,
                     found.graph, found.schedule,   type,       window,
                     tensors,     std::move(sizes), asked};
}

CountedBytes PerfOptions::counted(std::size_t bytes) const {
  const auto all = static_cast<double>(bytes);
  if (window) return {all, all};  // one rank's work, as nccl-tests' sendrecv
  const std::uint64_t steps = std::min(schedule.cover(), kMostSteps);
  double degrees = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::size_t most = 0;
    for (Rank rank = 0; rank < schedule.size(); ++rank)
      most = std::max(most, schedule.local_view(step, rank).in.size());
    degrees += static_cast<double>(most);
  }
  return counted_bytes(collective, all, asked.ranks, degrees / static_cast<double>(steps));
}

Recipe PerfOptions::recipe_of(Rank rank) const {
  return in_ranks(recipe(collective, graph, is_over_machines() ? machine_of(rank) : rank));
}

Recipe PerfOptions::in_ranks(Recipe found) const {
  if (!is_over_machines()) return found;
  std::vector<int> machines;
  for (Rank rank = 0; rank < asked.ranks; ++rank) machines.push_back(machine_of(rank));
  return over_machines(found, machines);
}

}  // namespace weft
