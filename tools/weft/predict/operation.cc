// Operations as plans, and their limits.
#include "tools/weft/predict/operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/weft/common/named_graph.h"

namespace weft {
namespace {

// A schedule's steps that are looked at; their mean is told.
constexpr std::uint64_t kMostSteps = 32;

View view_of(const LocalView& local) {
  View view{local.rank, local.size, {}, {}};
  for (const Peer& peer : local.in) view.in.push_back(peer.rank);
  for (const Peer& peer : local.out) view.out.push_back(peer.rank);
  return view;
}

template <typename Local>
std::vector<View> views(int size, Local local) {
  std::vector<View> all;
  for (Rank rank = 0; rank < size; ++rank) all.push_back(view_of(local(rank)));
  return all;
}

Result<std::vector<std::vector<View>>> steps_of(std::string_view name, int size) {
  WEFT_ASSIGN(const GraphOrSchedule made, make_graph_or_schedule(name, size));
  if (const auto* graph = std::get_if<Graph>(&made))
    return std::vector<std::vector<View>>{
        views(size, [&](Rank rank) { return graph->local_view(rank); })};
  const auto* schedule = std::get_if<Schedule>(&made);
  std::vector<std::vector<View>> steps;
  for (std::uint64_t step = 0; step < std::min(schedule->cover(), kMostSteps); ++step)
    steps.push_back(views(size, [&](Rank rank) { return schedule->local_view(step, rank); }));
  return steps;
}

double machine_bytes_per_us(const Cluster& cluster, std::size_t machine) {
  double gbit = 0;
  for (const Rail& rail : cluster.rails) gbit += rail.gbit_per_s[machine];
  return gbit * 125;
}

// By rank; plans number machines by their lowest one.
std::vector<int> machines_by_rank(const PredictScene& scene) {
  std::vector<int> number(scene.cluster.machines.size(), -1);
  std::vector<int> machines;
  int next = 0;
  for (Rank rank = 0; rank < scene.ranks(); ++rank) {
    int& own = number[static_cast<std::size_t>(scene.placement.machine_of(rank, scene.cluster))];
    if (own < 0) own = next++;
    machines.push_back(own);
  }
  return machines;
}

// As many as the machine with the fewest sends over, as the engine counts them.
int common_rails(const PredictScene& scene) {
  std::size_t fewest = scene.cluster.rails.size();
  for (Rank rank = 0; rank < scene.ranks(); ++rank)
    fewest = std::min(fewest, scene.rails.rails_beside(rank).size());
  return std::max(1, static_cast<int>(fewest));
}

// Layout::near, where ranks use what is near them and not all, and all machines send over the same
// rails.
std::vector<int> near_of(const PredictScene& scene) {
  std::vector<int> near;
  const std::vector<int> all = scene.rails.rails_beside(0);
  bool is_known = false;
  for (Rank rank = 0; rank < scene.ranks(); ++rank) {
    if (scene.rails.rails_beside(rank) != all) return {};
    const auto own = scene.rails.rails_of(rank);
    const bool is_one = own.size() == 1;
    const auto place = std::ranges::find(all, is_one ? own.front() : kAnyRail) - all.begin();
    near.push_back(is_one ? static_cast<int>(place) : kAnyRail);
    is_known |= is_one;
  }
  if (!is_known) near.clear();
  return near;
}

// Each machine that holds some ranks, but not all, must give away or take in as many bytes, and all
// machines together must take in `together`.
double ideal_of_all_us(const Cluster& cluster, double bytes, double together) {
  if (cluster.machines.size() < 2) return 0;
  double slowest = machine_bytes_per_us(cluster, 0);
  double all = slowest;
  for (std::size_t machine = 1; machine < cluster.machines.size(); ++machine) {
    const double rate = machine_bytes_per_us(cluster, machine);
    slowest = std::min(slowest, rate);
    all += rate;
  }
  return std::max(bytes / slowest, together / all);
}

// Messages that must enter or leave a machine, one for each edge of the graph.
double ideal_of_graph_us(const PredictScene& scene, std::size_t bytes) {
  const auto machines = scene.cluster.machines.size();
  const auto machine_of = [&](Rank rank) {
    return static_cast<std::size_t>(scene.placement.machine_of(rank, scene.cluster));
  };
  double all = 0;
  for (const std::vector<View>& step : scene.steps) {
    std::vector<double> in(machines), out(machines);
    for (const View& view : step) {
      const std::size_t own = machine_of(view.rank);
      for (const Rank peer : view.out) {
        const std::size_t other = machine_of(peer);
        if (other == own) continue;
        out[own] += static_cast<double>(bytes);
        in[other] += static_cast<double>(bytes);
      }
    }
    double most = 0;
    for (std::size_t machine = 0; machine < machines; ++machine) {
      const double rate = machine_bytes_per_us(scene.cluster, machine);
      if (rate > 0) most = std::max(most, std::max(in[machine], out[machine]) / rate);
    }
    all += most;
  }
  return all / static_cast<double>(scene.steps.size());
}

}  // namespace

bool is_on_graph(Collective operation) {
  return has<kHasWeights>(operation) || operation == Collective::neighbor_allgather;
}

std::string PredictedCase::text() const {
  const std::string_view what = name(operation);
  return has<kHasAlgorithm>(operation) ? fmt::format("{} {}", what, by.name) : std::string(what);
}

Status check(const PredictedCase& of, const PredictScene& scene) {
  switch (of.operation) {
    case Collective::allreduce:
      WEFT_RETURN_IF_ERROR(check_bits(of.by.algorithm, of.bits));
      return check_allreduce(of.by.algorithm, scene.ranks(), scene.layout);
    case Collective::hierarchical_neighbor_allreduce:
      return check_hierarchical_neighbor_allreduce(scene.layout);
    default:
      return {};
  }
}

Result<PredictScene> set_scene(Cluster cluster, Placement placement, RailPolicy policy,
                               std::string_view graph, Collective operation) {
  PredictScene scene{std::move(cluster), std::move(placement), {}, {}, {}};
  const int ranks = scene.ranks();
  WEFT_ASSIGN(scene.rails, choose_rails(scene.cluster, scene.placement, policy));
  scene.layout.machine = machines_by_rank(scene);
  scene.layout.rails = common_rails(scene);
  scene.layout.near = near_of(scene);
  const bool between_machines = operation == Collective::hierarchical_neighbor_allreduce;
  scene.steps.emplace_back();
  if (is_on_graph(operation)) {
    WEFT_ASSIGN(scene.steps,
                steps_of(graph, between_machines ? static_cast<int>(scene.cluster.machines.size())
                                                 : ranks));
  }
  return scene;
}

Result<PredictScene> without(PredictScene scene, const std::vector<LostRail>& lost,
                             RailPolicy policy) {
  if (lost.empty()) return scene;
  const auto rates = [&scene](int machine) {
    double sum = 0;
    for (const Rail& rail : scene.cluster.rails)
      if (rail.has(machine)) sum += rail.gbit_per_s[static_cast<std::size_t>(machine)];
    return sum;
  };
  std::vector<double> whole;
  for (int machine = 0; machine < std::ssize(scene.cluster.machines); ++machine)
    whole.push_back(rates(machine));
  for (const LostRail& each : lost)
    scene.cluster.rails[static_cast<std::size_t>(each.rail)]
        .nics[static_cast<std::size_t>(each.machine)] = -1;
  WEFT_ASSIGN(scene.rails, choose_rails(scene.cluster, scene.placement, policy));
  for (Rank rank = 0; rank < scene.ranks(); ++rank) {
    const int machine = scene.layout.machine_of(rank);
    scene.layout.left.push_back(rates(machine) / whole[static_cast<std::size_t>(machine)]);
  }
  return scene;
}

std::function<Planned(Rank)> plans_of(const PredictedCase& of, const PredictScene& scene,
                                      std::size_t step) {
  return [&scene, of, step](Rank rank) {
    return planned(
        of.operation, rank,
        {scene.ranks(), of.bytes, of.by.algorithm, scene.layout, scene.steps[step], of.bits});
  };
}

OperandBytes operands_of(const PredictedCase& of, const PredictScene&) {
  const std::size_t bytes = of.operation == Collective::barrier ? 0 : of.bytes;
  return {bytes, bytes, bytes};
}

CountedBytes counted_bytes(const PredictedCase& of, const PredictScene& scene) {
  double degrees = 0;
  for (const std::vector<View>& step : scene.steps) {
    std::size_t most = 0;  // a step has no views where there is no graph
    for (const View& view : step) most = std::max(most, view.in.size());
    degrees += static_cast<double>(most);
  }
  return counted_bytes(of.operation, static_cast<double>(operands_of(of, scene).input),
                       scene.ranks(), degrees / static_cast<double>(scene.steps.size()));
}

double ideal_us(const PredictedCase& of, const PredictScene& scene) {
  const auto machines = static_cast<double>(scene.cluster.machines.size());
  const auto bytes = static_cast<double>(of.bytes);
  switch (of.operation) {
    case Collective::neighbor_allreduce:
    case Collective::neighbor_allgather:
      return ideal_of_graph_us(scene, of.bytes);
    case Collective::allreduce:
      // A machine's own input must leave it, and the others' must enter it, in M bytes at least.
      // For each byte of the result all machines must learn of all others', which takes 2(n-1)
      // messages of a byte one way ("gossip", Harary and Schwenk 1974), whoever sends them. With
      // equal rates that is the 2 M (n-1)/n of each machine.
      return ideal_of_all_us(scene.cluster, bytes, 2 * bytes * (machines - 1));
    case Collective::broadcast:
    case Collective::reduce:
      // The root sends (takes in) M bytes, each other machine takes in (sends) as many.
      return ideal_of_all_us(scene.cluster, bytes, bytes * (machines - 1));
    default:
      return 0;
  }
}

}  // namespace weft
