// weft map: which interfaces a graph's edges take on a cluster, and where its ranks should sit.
#include "tools/weft/map/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "engine/context/context.h"
#include "scheduler/simulate/simulate.h"
#include "tools/weft/commands.h"
#include "tools/weft/common/bytes.h"
#include "tools/weft/common/like.h"
#include "tools/weft/common/place.h"
#include "tools/weft/common/range.h"
#include "tools/weft/common/save.h"
#include "tools/weft/common/stop.h"
#include "tools/weft/map/measure.h"
#include "tools/weft/predict/judge.h"
#include "tools/weft/predict/options.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Cluster files: docs/cluster.md; graphs and schedules: weft graph --help; how rails are chosen and what
the times mean: docs/mapping.md. Ctrl-C ends the search of --place: the best seats so far are shown and
written, "complete" is false in JSON, and the exit status is 130.

Examples:
  weft map --cluster cluster.toml --graph exponential
  weft map --like machine.xml --machines 16 --per-machine 8 --graph ring
  weft map --cluster cluster.toml --graph ring --rails all --bytes 16M --svg map.svg
  weft map --cluster cluster.toml --graph exponential --place --seconds 30 --all
  weft map --cluster examples/clusters/eight-ports.toml --graph ring --bytes 256M --lanes 8
  weft map --cluster cluster.toml --graph bcube:a=4 --ranks 16 --json map.json
  weft run -n 4 --no-tag -- weft map --cluster cluster.toml --graph ring --measure --place)";

// A JSON object takes 3 KB for each edge while it is made.
constexpr std::size_t kMostWritten = 500'000;
// With more edges no other numbers of lanes are tried: each maps all of them.
constexpr std::size_t kMostTried = 100'000;

struct MapArguments {
  ClusterArguments cluster{};
  std::string graph = "exponential";
  std::string rails = "auto";
  std::string bytes = "1M";
  std::string json{};
  std::string svg{};
  int ranks = 0;
  int lanes = 0;  // 0: one, and how many would help
  double combine_gbyte_per_s = 0;
  PlaceArguments place{};
  bool all = false;
  bool measure = false;
};

int fail(const Status& status) {
  fmt::print(stderr, "weft map: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

Status show(const MapArguments& asked, const ShownMap& shown) {
  if (!asked.svg.empty()) {
    const auto used = std::ranges::count(used_machines(shown), true);
    if (used > kMostDrawn) {
      return {Code::invalid_argument,
              fmt::format("--svg draws at most {} machines with ranks, not {}", kMostDrawn, used)};
    }
    WEFT_RETURN_IF_ERROR(save(asked.svg, map_svg(shown)));
  }
  if (!asked.json.empty() && shown.map.edges.size() > kMostWritten) {
    return {Code::invalid_argument, fmt::format("--json writes at most {} edges, not {}",
                                                kMostWritten, shown.map.edges.size())};
  }
  if (!shown.is_complete)
    fmt::print(stderr,
               "weft map: interrupted: the best seats so far, not compared by simulation\n");
  if (asked.json != "-") fmt::print("{}", map_text(shown, asked.all));
  if (asked.json.empty()) return {};
  if (asked.json != "-") return save(asked.json, map_json(shown));
  fmt::print("{}", map_json(shown));
  return {};
}

// How many lanes would help, where their number is not given.
Result<LaneAdvice> advise(const MapArguments& asked, const Cluster& cluster,
                          const ShownMap& shown) {
  const LaneAdvice none{1, shown.us()};
  if (asked.lanes != 0 || shown.map.edges.size() > kMostTried || shown.work.us <= shown.map.us)
    return none;
  const auto bytes = static_cast<std::size_t>(shown.options.bytes);
  return advise_lanes(shown.us(), most_lanes(cluster, bytes), [&](int lanes) -> Result<double> {
    WEFT_ASSIGN(const RailMap map,
                map_graph(with_lanes(cluster, lanes), shown.graph, shown.placement, shown.options));
    return std::max(
        map.us, lane_work(cluster, shown.graph, shown.placement, shown.options.bytes, lanes).us);
  });
}

// `cluster` is that of all lanes; `one_lane` is as the file has it.
Result<ShownMap> map_of(const MapArguments& asked, const Cluster& cluster, const Cluster& one_lane,
                        const Graph& graph) {
  WEFT_ASSIGN(const std::size_t bytes, bytes_from(asked.bytes));
  WEFT_ASSIGN(const RailPolicy policy, rail_policy(asked.rails));
  const MapOptions options{.policy = policy, .bytes = static_cast<double>(bytes)};
  std::optional<FoundPlacement> found;
  if (asked.place.is_asked) {
    // Of a job, somebody sits only where it has a rank.
    const int seats = asked.measure ? graph.size() : 0;
    WEFT_ASSIGN(found, search_seats(asked.place, cluster, graph, options, seats));
    SimulateOptions simulated;
    simulated.piece_bytes = network_piece(one_lane);
    simulated.goes_on = [](double) { return !is_told_to_stop(); };
    const PredictedCase exchange{
        Collective::neighbor_allreduce, {}, bytes, std::max(asked.lanes, 1)};
    const Status judged =
        keep_if_no_slower(one_lane, policy, asked.graph, {&exchange, 1}, simulated, *found);
    if (!is_told_to_stop()) WEFT_RETURN_IF_ERROR(judged);
  }
  const bool is_complete = !is_told_to_stop();
  const Placement placement = found ? found->placement : Placement::identity(graph.size());
  WEFT_ASSIGN(RailMap map, map_graph(cluster, graph, placement, options));
  const CombiningWork work =
      lane_work(one_lane, graph, placement, options.bytes, std::max(asked.lanes, 1));
  ShownMap shown{cluster, graph, options, placement, std::move(found), std::move(map),
                 work,    {},    {},      {},        is_complete};
  WEFT_ASSIGN(shown.advice, advise(asked, one_lane, shown));
  for (const RailPolicy other : {RailPolicy::near, RailPolicy::all}) {
    if (other == policy) continue;
    WEFT_ASSIGN(const RailMap by_other,
                map_graph(cluster, graph, placement, {.policy = other, .bytes = options.bytes}));
    shown.other_us.emplace_back(other, std::max(by_other.us, work.us));
  }
  return shown;
}

// Searches that time ended differ from rank to rank: rank 0's counts.
Result<Placement> agreed_placement(Context& context, const Placement& own) {
  Placement agreed = own;
  WEFT_RETURN_IF_ERROR(context.broadcast(in(own.seat.data(), own.seat.size()),
                                         out(agreed.seat.data(), agreed.seat.size()), 0));
  return agreed;
}

// Every rank maps, so that a mistake is found before anyone waits for anyone; rank 0 shows. The
// launcher has seated the job's ranks, so each plays the rank of the graph that is to sit there.
Status measure(const MapArguments& asked, ShownMap& shown) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::from_environment());
  if (context->size() != shown.graph.size()) {
    return {Code::invalid_argument,
            fmt::format("--measure: the graph has {} ranks, the job {}; start the ranks with a "
                        "launcher (weft run -n {} -- weft map …)",
                        shown.graph.size(), context->size(), shown.graph.size())};
  }
  WEFT_ASSIGN(const Context::Placement job, context->placement());
  WEFT_RETURN_IF_ERROR(check_places(shown.cluster, context->size(), job.layout));
  WEFT_ASSIGN(shown.placement, agreed_placement(*context, shown.placement));
  WEFT_ASSIGN(shown.measured_us,
              measure_edges(*context, edges_between_seats(shown.graph, shown.placement),
                            static_cast<std::size_t>(shown.options.bytes)));
  return context->rank() == 0 ? show(asked, shown) : Status{};
}

Status run(const MapArguments& asked) {
  // The ranks of a job would measure what they were told to leave.
  if (asked.place.is_asked && !asked.measure) stop_by_signals();
  WEFT_ASSIGN(Cluster one_lane, cluster_of(asked.cluster, "weft map"));
  if (asked.combine_gbyte_per_s > 0)
    one_lane.memory.combine_gbyte_per_s = asked.combine_gbyte_per_s;
  WEFT_ASSIGN(const std::size_t bytes, bytes_from(asked.bytes));
  const int lanes = lanes_of(static_cast<double>(bytes), std::max(asked.lanes, 1));
  const Cluster cluster = with_lanes(one_lane, lanes);
  if (asked.ranks > cluster.ranks()) {
    return {Code::invalid_argument, fmt::format("--ranks {}: {} has room for {}", asked.ranks,
                                                cluster.source, cluster.ranks())};
  }
  WEFT_ASSIGN(const Graph graph,
              all_edges(asked.graph, asked.ranks == 0 ? cluster.ranks() : asked.ranks));
  WEFT_ASSIGN(ShownMap shown, map_of(asked, cluster, one_lane, graph));
  return asked.measure ? measure(asked, shown) : show(asked, shown);
}

void add_options(CLI::App& command, MapArguments& to) {
  add_cluster_options(command, to.cluster);
  command.add_option("--graph", to.graph, "Graph or schedule (all its edges) [exponential]");
  command.add_option("--ranks", to.ranks, "Ranks of the graph [as many as the cluster has]")
      ->check(CLI::Range(1, kMostRanks));
  command
      .add_option("--rails", to.rails,
                  "near: each rank its nearest; all: those of its machine; "
                  "auto: near where distances differ [auto]")
      ->check(CLI::IsMember({"auto", "near", "all"}));
  command.add_option("--bytes", to.bytes, "Of a message, with K, M, G or nothing [1M]");
  command.add_option("--lanes", to.lanes, "Threads of each rank that share a large message [1]")
      ->check(CLI::Range(1, kMostLanes));
  command
      .add_option("--combine", to.combine_gbyte_per_s,
                  "GB/s of terms that a lane reads while combining [as the cluster file says, else "
                  "10]")
      ->check(number_in(1e-6, 1e6));
  add_place_options(command, to.place);
  command.add_flag("--measure", to.measure,
                   "Also time each edge, alone: run it as a job's ranks, with a launcher");
  command.add_flag("--all", to.all, "Every line of long tables");
  add_json_option(command, to.json, "One JSON object");
  command.add_option("--svg", to.svg, "File for a drawing")->check(no_empty_text());
}

}  // namespace

std::vector<bool> used_machines(const ShownMap& shown) {
  std::vector<bool> used(shown.cluster.machines.size());
  for (Rank rank = 0; rank < shown.graph.size(); ++rank)
    used[static_cast<std::size_t>(shown.placement.machine_of(rank, shown.cluster))] = true;
  return used;
}

std::string interface_name(const Cluster& cluster, int rail, int machine) {
  const auto m = static_cast<std::size_t>(machine);
  const int nic = cluster.rails[static_cast<std::size_t>(rail)].nics[m];
  return cluster.machines[m].hardware->nics[static_cast<std::size_t>(nic)].name();
}

void add_map(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "map", "Show which interfaces a graph's edges take on a cluster, and how long that takes");
  const auto arguments = std::make_shared<MapArguments>();
  add_options(*command, *arguments);
  command->footer(kExamples);
  command->callback([&action, arguments] {
    action = [arguments] {
      const Status status = run(*arguments);
      return status.ok() ? stopped_status() : fail(status);
    };
  });
}

}  // namespace weft
