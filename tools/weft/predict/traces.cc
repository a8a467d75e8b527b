// weft predict --chakra: which rank has which trace, what its operations take on the cluster, and what is said.
#include "tools/weft/predict/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/weft/common/bytes.h"
#include "tools/weft/common/progress.h"
#include "tools/weft/common/save.h"
#include "tools/weft/common/stop.h"
#include "tools/weft/predict/judge.h"
#include "tools/weft/predict/step.h"

namespace weft {
namespace {

constexpr std::size_t kMostTraces = 16'384;
constexpr int kNone = -1;

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

// 12 of "run/step.12.et"; kNone: the name has no number there.
int number_in(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  const std::string digits = stem.substr(stem.rfind('.') + 1);
  const bool is_number = !digits.empty() && digits.size() < 7 &&
                         std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::stoi(digits) : kNone;
}

// By rank: as the numbers in their names say, NAME.RANK.et; without numbers, as they are given.
Result<std::vector<std::string>> by_rank(const std::vector<std::string>& paths) {
  if (paths.size() > kMostTraces)
    return invalid(fmt::format("--chakra: more than {} traces", kMostTraces));
  std::vector<std::string> sorted(paths.size());
  const bool are_numbered =
      std::ranges::all_of(paths, [](const auto& path) { return number_in(path) != kNone; });
  if (paths.size() == 1 || !are_numbered) return paths;
  for (const std::string& path : paths) {
    const auto rank = static_cast<std::size_t>(number_in(path));
    if (rank >= paths.size())
      return invalid(fmt::format("--chakra: {} is of rank {}, and there are {} traces", path, rank,
                                 paths.size()));
    if (!sorted[rank].empty())
      return invalid(fmt::format("--chakra: {} and {} are of one rank", sorted[rank], path));
    sorted[rank] = path;
  }
  return sorted;
}

class Costs {
 public:
  Costs(const PredictOptions& options, Cluster cluster, RailUse rails)
      : options_(options), cluster_(std::move(cluster)), rails_(std::move(rails)) {}

  Result<double> collective_us(const ChakraNode& node, const std::vector<Rank>& group) {
    const std::uint64_t bytes = case_bytes(node, group.size());
    const auto [known, is_new] = known_.try_emplace({node.operation, bytes, group});
    if (!is_new) return known->second;
    WEFT_ASSIGN(const PredictScene scene,
                set_scene(cluster_, Placement{group}, options_.policy, "", node.operation));
    const PredictedCase of{node.operation, options_.algorithms.front(), bytes,
                           options_.lanes.front(), options_.bits};
    const std::string what =
        fmt::format("{} of {} on {} ranks", of.text(), bytes_text(bytes), group.size());
    SimulateOptions simulated = options_.simulate;
    simulated.goes_on = [&](double part) {
      progress_.say(fmt::format("{}: {:.0f}%", what, 100 * part));
      return !is_told_to_stop();
    };
    const Status possible = check(of, scene);
    const Result<double> us =
        possible.ok() ? mean_us(of, scene, simulated) : Result<double>(possible);
    if (!us.ok())
      return Status(us.status().code(), fmt::format("{}: {}", what, us.status().text()));
    known->second = *us;
    return *us;
  }

  Result<StepCosts::Message> message(Rank from, Rank to, std::uint64_t bytes) {
    const int a = cluster_.machine_of(from), b = cluster_.machine_of(to);
    const auto size = static_cast<double>(bytes);
    if (a == b)
      return StepCosts::Message{size / (cluster_.memory.gbyte_per_s * 1e3),
                                cluster_.memory.latency_us};
    std::vector<int> rails;
    rails_.rails_between(from, to, rails);
    if (rails.empty()) return invalid(fmt::format("no rail connects ranks {} and {}", from, to));
    double bytes_per_us = 0, latency_us = 0;
    for (const int number : rails) {
      const Rail& rail = cluster_.rails[static_cast<std::size_t>(number)];
      const auto rate = [&](int machine) {
        return rail.gbit_per_s[static_cast<std::size_t>(machine)];
      };
      bytes_per_us += std::min(rate(a), rate(b)) * 125;
      latency_us = std::max(latency_us, rail.latency_between(a, b));
    }
    return StepCosts::Message{size / bytes_per_us, latency_us};
  }

  void clear() { progress_.clear(); }

 private:
  // Of the operations whose size is that of a block, a rank's input has one for each rank.
  static std::uint64_t case_bytes(const ChakraNode& node, std::size_t ranks) {
    constexpr std::uint64_t kElement = 4;
    const bool is_of_blocks = node.operation == Collective::reduce_scatter ||
                              node.operation == Collective::alltoall ||
                              node.operation == Collective::scatter;
    const std::uint64_t parts = is_of_blocks ? ranks : 1;
    return node.operation == Collective::barrier
               ? 0
               : std::max<std::uint64_t>((node.bytes / parts + kElement - 1) / kElement, 1) *
                     kElement;
  }

  const PredictOptions& options_;
  const Cluster cluster_;
  const RailUse rails_;
  Progress progress_{"weft predict"};
  std::map<std::tuple<Collective, std::uint64_t, std::vector<Rank>>, double> known_;
};

double mean(const PlayedStep& step, double RankOfStep::*what) {
  double sum = 0;
  for (const RankOfStep& rank : step.ranks) sum += rank.*what;
  return sum / static_cast<double>(step.ranks.size());
}

double share(const PlayedStep& step, double RankOfStep::*what) {
  return step.us > 0 ? mean(step, what) / step.us : 0;
}

std::string text_of(const PlayedStep& step, int ranks) {
  std::string text = fmt::format(
      "a step of {} nodes on {} ranks: {:.1f} us\ncomputing {:.1f}%, communication {:.1f}%, of "
      "which exposed "
      "(nothing computes) {:.1f}% of the step\n\n{:<16} {:>8} {:>8} {:>12} {:>12}\n",
      step.nodes, ranks, step.us, 100 * share(step, &RankOfStep::computing_us),
      100 * share(step, &RankOfStep::communicating_us), 100 * share(step, &RankOfStep::exposed_us),
      "operation", "bytes", "count", "us each", "us in all");
  for (const OperationOfStep& each : step.operations)
    text +=
        fmt::format("{:<16} {:>8} {:>8} {:>12.1f} {:>12.1f}\n", each.name, bytes_text(each.bytes),
                    each.count, each.us / static_cast<double>(each.count), each.us);
  if (step.without_time > 0)
    text += fmt::format("\n{} computations have no time in the traces and count as 0 us\n",
                        step.without_time);
  return text;
}

nlohmann::ordered_json json_of(const PlayedStep& step, int ranks) {
  auto operations = nlohmann::ordered_json::array();
  for (const OperationOfStep& each : step.operations)
    operations.push_back(
        {{"operation", each.name}, {"bytes", each.bytes}, {"count", each.count}, {"us", each.us}});
  auto by_rank = nlohmann::ordered_json::array();
  for (const RankOfStep& rank : step.ranks)
    by_rank.push_back({{"us", rank.us},
                       {"computing_us", rank.computing_us},
                       {"communicating_us", rank.communicating_us},
                       {"exposed_us", rank.exposed_us}});
  return {{"step", "chakra"},
          {"ranks", ranks},
          {"nodes", step.nodes},
          {"us", step.us},
          {"computing_share", share(step, &RankOfStep::computing_us)},
          {"communication_share", share(step, &RankOfStep::communicating_us)},
          {"exposed_share", share(step, &RankOfStep::exposed_us)},
          {"without_time", step.without_time},
          {"operations", operations},
          {"by_rank", by_rank}};
}

Result<std::vector<ChakraTrace>> read_all(const std::vector<std::string>& paths) {
  WEFT_ASSIGN(const std::vector<std::string> sorted, by_rank(paths));
  std::vector<ChakraTrace> traces;
  for (const std::string& path : sorted) {
    WEFT_ASSIGN(ChakraTrace trace, read_chakra(path));
    traces.push_back(std::move(trace));
  }
  return traces;
}

}  // namespace

Status predict_traces(const PredictOptions& options) {
  WEFT_ASSIGN(const std::vector<ChakraTrace> traces, read_all(options.asked.chakra));
  const int all = options.cluster.ranks();
  const int ranks = traces.size() > 1 ? static_cast<int>(traces.size()) : options.ranks.front();
  if (options.ranks.size() > 1 || (!options.asked.ranks.empty() && options.ranks.front() != ranks))
    return invalid(
        fmt::format("--ranks {}: there are traces of {} ranks", options.asked.ranks, ranks));
  if (ranks > all)
    return invalid(fmt::format("--chakra: traces of {} ranks, and the cluster has {}", ranks, all));
  const Cluster cluster = first_ranks(options.cluster, ranks);
  WEFT_ASSIGN(RailUse rails, choose_rails(cluster, Placement::identity(ranks), options.policy));
  WEFT_ASSIGN(Rows rows, Rows::open(options.asked.json));
  Costs costs(options, cluster, std::move(rails));
  const StepCosts asked{
      [&](const ChakraNode& node, const std::vector<Rank>& group) {
        return costs.collective_us(node, group);
      },
      [&](Rank from, Rank to, std::uint64_t bytes) { return costs.message(from, to, bytes); }};
  const Result<PlayedStep> step = play_step(traces, ranks, asked);
  costs.clear();
  WEFT_RETURN_IF_ERROR(step.status());
  WEFT_RETURN_IF_ERROR(rows.text(describe(cluster) + text_of(*step, ranks)));
  WEFT_RETURN_IF_ERROR(rows.json(json_of(*step, ranks).dump()));
  return rows.close();
}

}  // namespace weft
