// weft predict: how long operations will take on a cluster, from its description alone.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "tools/weft/commands.h"
#include "tools/weft/common/bytes.h"
#include "tools/weft/common/place.h"
#include "tools/weft/common/progress.h"
#include "tools/weft/common/range.h"
#include "tools/weft/common/save.h"
#include "tools/weft/common/stop.h"
#include "tools/weft/predict/judge.h"
#include "tools/weft/predict/report.h"
#include "tools/weft/predict/strategies.h"
#include "tools/weft/predict/traces.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
The graph of hierarchical_neighbor_allreduce is one of machines. A size is that of one rank's input, or block. A schedule's time is the mean over its steps.
--lanes 1,2,4 predicts ranks with so many lanes, threads that share a large operation. Without it ranks have
one, and the last line says how many would help where combining takes most of the time.

algbw and busbw are those of NCCL's tests (docs/performance.md): the operation's bytes over the time, and
what the interfaces of the busiest rank carry.
of ideal is what no plan could beat (the bytes that must pass a machine's interfaces, or those of all machines
together, over their rates) over the time. docs/simulation.md has the model.

Ctrl-C ends it: what has been predicted is kept, as text, JSON and curves, and the exit status is 130.

--place searches for the seats that `weft map --place` finds, for --graph and a message of the first of
--sizes; all operations then run there, and identity us is what they take where ranks sit in order.

--chakra plays a step of a program as MLCommons Chakra has recorded it (schema 0.0.4), with its own computing times and with
the operations and messages of this cluster, and says which share of the step is communication. docs/simulation.md.

Examples:
  weft predict --cluster examples/clusters/two-leaves.toml
  weft predict --cluster c.toml --chakra step.*.et
  weft predict --cluster c.toml --operation allreduce --algorithm auto,ring,bcube --explain
  weft predict --cluster c.toml --graph one_peer_exponential --ranks 4,8,16,32 --svg curves.svg
  weft predict --like node.xml --machines 1024 --per-machine 8 --sizes 64M --ranks 64,512,8192
  weft predict --cluster c.toml --straggler 3:+500us,5:x2 --run-svg run.svg --sizes 1M
  weft predict --cluster c.toml --graph grid --place --operation neighbor_allreduce
  weft predict --cluster examples/clusters/eight-ports.toml --sizes 256M --lanes 1,2,4,8 --svg lanes.svg
  weft predict --cluster c.toml --ranks 8 --plan-svg plan.svg --operation allreduce --sizes 1M)";

// A drawing of more ranks would show nothing new.
constexpr std::uint64_t kMostDrawn = 2'000'000;
// Lanes are recommended where trying them takes a few seconds at most, and where their work is at
// least this part of the critical path.
constexpr std::uint64_t kMostTried = 1'000'000;
constexpr double kLeastLaneShare = 0.2;
constexpr std::uint64_t kFewTries = 16;  // about so many times the messages of one lane

int fail(const Status& status) {
  fmt::print(stderr, "weft predict: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

std::string title_of(const PredictRow& row) {
  return fmt::format("{}{} of {} on {} ranks{}: {:.1f} us", row.operation,
                     row.algorithm == row.operation ? "" : fmt::format(" {}", row.algorithm),
                     bytes_text(row.bytes), row.ranks,
                     row.lanes_used == 1 ? "" : fmt::format(" with {} lanes", row.lanes_used),
                     row.us);
}

// What lanes do on the critical path.
std::string lane_work_of(const Simulation& simulation) {
  std::set<std::string> work;
  for (const Cause& cause : simulation.critical) {
    if (cause.kind == Cause::Kind::combining) work.insert("combining");
    if (cause.kind == Cause::Kind::memory) work.insert("reading memory");
  }
  return fmt::format("{}", fmt::join(work, " and "));
}

class Prediction {
 public:
  Prediction(PredictOptions options, PredictReport report)
      : options_(std::move(options)), report_(std::move(report)) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(report_.head(options_.cluster));
    const Status predicted = run_all();
    progress_.clear();
    if (!is_told_to_stop()) WEFT_RETURN_IF_ERROR(predicted);
    WEFT_RETURN_IF_ERROR(report_.close());
    const PredictArguments& asked = options_.asked;
    if (is_told_to_stop())
      fmt::print(stderr, "weft predict: interrupted after {} rows\n", rows_.size());
    else if (rows_.empty())
      return Status(Code::invalid_argument, "nothing that can be predicted");
    if (asked.svg.empty() || rows_.empty()) return {};
    return save(asked.svg,
                draw_curves(rows_, asked.title.empty() ? options_.cluster.source : asked.title,
                            asked.compute_ms * 1e3));
  }

 private:
  Status run_all() {
    for (const Collective operation : options_.operations)
      for (const int ranks : options_.ranks) WEFT_RETURN_IF_ERROR(run(operation, ranks));
    return busiest_ ? advise_last(*busiest_) : Status();
  }

  [[nodiscard]] Result<PredictScene> scene_of(const Cluster& cluster, const Placement& placement,
                                              Collective operation) const {
    WEFT_ASSIGN(PredictScene scene,
                set_scene(cluster, placement, options_.policy, options_.asked.graph, operation));
    return without(std::move(scene), options_.lost, options_.policy);
  }

  Status run(Collective operation, int ranks) {
    const Cluster cluster = first_ranks(options_.cluster, ranks);
    WEFT_ASSIGN(const Placement placement, placement_on(cluster));
    WEFT_ASSIGN(const PredictScene scene, scene_of(cluster, placement, operation));
    for (const AskedAlgorithm& algorithm : options_.algorithms) {
      WEFT_RETURN_IF_ERROR(
          run_sizes({.operation = operation, .by = algorithm, .bits = options_.bits}, scene));
      if (!has<kHasAlgorithm>(operation)) break;
    }
    return {};
  }

  // An operation that cannot run there is named; the others are predicted.
  Status run_sizes(PredictedCase of, const PredictScene& scene) {
    if (const Status possible = check(of, scene); !possible.ok()) {
      leave_out(of, scene, possible);
      return {};
    }
    for (const std::size_t bytes : options_.sizes) {
      of.bytes = bytes;
      for (const int lanes : options_.lanes) {
        of.lanes = lanes;
        WEFT_RETURN_IF_ERROR(run(of, scene));
      }
    }
    return {};
  }

  // Once, whatever the sizes.
  void leave_out(const PredictedCase& of, const PredictScene& scene, const Status& why) {
    const std::string line =
        fmt::format("left out: {} on {} ranks: {}", of.text(), scene.ranks(), why.text());
    progress_.clear();
    if (said_.insert(line).second) fmt::print(stderr, "weft predict: {}\n", line);
  }

  // Searched for once for each number of ranks.
  Result<Placement> placement_on(const Cluster& cluster) {
    const int ranks = cluster.ranks();
    if (!options_.asked.place.is_asked) return Placement::identity(ranks);
    if (const auto known = placements_.find(ranks); known != placements_.end())
      return known->second;
    WEFT_ASSIGN(const Graph graph, all_edges(options_.asked.graph, ranks));
    const MapOptions map{.policy = options_.policy,
                         .bytes = static_cast<double>(options_.sizes.front())};
    WEFT_ASSIGN(FoundPlacement found, search_seats(options_.asked.place, cluster, graph, map));
    WEFT_RETURN_IF_ERROR(keep_if_no_slower(cluster, options_.policy, options_.asked.graph,
                                           all_cases(), simulated_on(ranks, "seats"), found));
    progress_.clear();
    WEFT_RETURN_IF_ERROR(report_.placement(ranks, found));
    placements_.emplace(ranks, found.placement);
    return found.placement;
  }

  // Everything that is predicted for a number of ranks.
  [[nodiscard]] std::vector<PredictedCase> all_cases() const {
    std::vector<PredictedCase> cases;
    for (const Collective operation : options_.operations) {
      for (const AskedAlgorithm& algorithm : options_.algorithms) {
        for (const std::size_t bytes : options_.sizes) {
          for (const int lanes : options_.lanes)
            cases.push_back({operation, algorithm, bytes, lanes, options_.bits});
        }
        if (!has<kHasAlgorithm>(operation)) break;
      }
    }
    return cases;
  }

  // With every rank in its own seat; 0: not all ranks that talk to each other can from there.
  Result<double> identity_us(const PredictedCase& of, const PredictScene& placed) {
    const Placement identity = Placement::identity(placed.ranks());
    WEFT_ASSIGN(const PredictScene scene, set_scene(placed.cluster, identity, options_.policy,
                                                    options_.asked.graph, of.operation));
    const Result<double> us = mean_us(of, scene, simulated_on(scene.ranks(), text_of(of)));
    return us.status().code() == Code::unavailable ? Result<double>(0.0) : us;
  }

  // With the bits of the fastest plan.
  Result<double> usual_us(PredictedCase of, const PredictScene& scene) {
    of.bits = Bits::automatic;
    return mean_us(of, scene, simulated_on(scene.ranks(), text_of(of)));
  }

  // A row with one lane, which spends much time in combining.
  struct Busy {
    PredictedCase of;
    int ranks = 0;
    std::size_t row = 0;
  };

  // Whether trying more lanes is of use, and takes little time.
  [[nodiscard]] bool is_advised(const PredictRow& row) const {
    const std::uint64_t simulated = row.messages * static_cast<std::uint64_t>(row.alike) /
                                    static_cast<std::uint64_t>(row.ranks);
    return options_.asked.lanes.empty() && row.lane_share >= kLeastLaneShare &&
           row.bytes >= 2 * kLeastStripeBytes && simulated * kFewTries <= kMostTried;
  }

  [[nodiscard]] Result<RowAdvice> advise(PredictedCase of, const PredictScene& scene,
                                         double one_us) const {
    RowAdvice advice{{}, most_lanes(scene.cluster, of.bytes), cores_text(scene.cluster)};
    WEFT_ASSIGN(advice.lanes, advise_lanes(one_us, advice.most, [&](int lanes) {
                  of.lanes = lanes;
                  return mean_us(of, scene, simulated_on(scene.ranks(), text_of(of)));
                }));
    return advice;
  }

  // Of all rows, that in which lanes work longest.
  Status advise_last(const Busy& busy) {
    const Cluster cluster = first_ranks(options_.cluster, busy.ranks);
    WEFT_ASSIGN(const Placement placement, placement_on(cluster));
    WEFT_ASSIGN(const PredictScene scene, scene_of(cluster, placement, busy.of.operation));
    const PredictRow& row = rows_[busy.row];
    WEFT_ASSIGN(const RowAdvice advice, advise(busy.of, scene, row.us));
    progress_.clear();
    return report_.advice(row, advice);
  }

  void remember_busiest(const PredictedCase& of, const PredictRow& row) {
    if (!is_advised(row)) return;
    if (busiest_) {
      const PredictRow& most = rows_[busiest_->row];
      if (most.lane_share * most.us >= row.lane_share * row.us) return;
    }
    busiest_ = Busy{of, row.ranks, rows_.size()};
  }

  static SimulatedJob job_of(const PredictedCase& of, const PredictScene& scene, std::size_t step) {
    return {scene.cluster, scene.placement,           scene.rails,
            scene.ranks(), plans_of(of, scene, step), operands_of(of, scene)};
  }

  static std::string text_of(const PredictedCase& of) {
    return fmt::format("{} of {}", of.text(), bytes_text(of.bytes));
  }

  // Stragglers whose rank does not exist are left out. `what` is simulated, for those who wait.
  [[nodiscard]] SimulateOptions simulated_on(int ranks, const std::string& what) const {
    SimulateOptions simulated = options_.simulate;
    std::erase_if(simulated.stragglers,
                  [ranks](const Straggler& straggler) { return straggler.rank >= ranks; });
    simulated.goes_on = [this, ranks, what](double part) {
      progress_.say(fmt::format("{} on {} ranks: {:.0f}%", what, ranks, 100 * part));
      return !is_told_to_stop();
    };
    return simulated;
  }

  Status run(const PredictedCase& of, const PredictScene& scene) {
    const bool draws = !options_.asked.run_svg.empty() || !options_.asked.plan_svg.empty();
    SimulateOptions simulated = simulated_on(scene.ranks(), text_of(of));
    simulated.lanes = of.lanes;
    if (draws) {
      simulated.keep_bars = true;
      simulated.collapse = false;
      simulated.most_messages = kMostDrawn;
    }
    PredictRow row;
    for (std::size_t step = 0; step < scene.steps.size(); ++step) {
      const SimulatedJob job = job_of(of, scene, step);
      const Result<Simulation> simulated_run = simulate(job, simulated);
      if (simulated_run.status().code() == Code::unavailable) {
        leave_out(of, scene, simulated_run.status());
        return {};
      }
      WEFT_RETURN_IF_ERROR(simulated_run.status());
      const Simulation& simulation = *simulated_run;
      row.us += simulation.total_us / static_cast<double>(scene.steps.size());
      if (step == 0) fill(row, of, scene, job, simulation);
      if (step == 0 && options_.asked.explain) fill_details(row, scene, simulation);
      if (draws && step == 0) WEFT_RETURN_IF_ERROR(draw(row, scene, simulation));
    }
    if (of.bits == Bits::fixed) {
      WEFT_ASSIGN(row.usual_us, usual_us(of, scene));
    }
    if (options_.asked.place.is_asked) row.identity_us = row.us;
    if (scene.placement.seat != Placement::identity(scene.ranks()).seat) {
      WEFT_ASSIGN(row.identity_us, identity_us(of, scene));
    }
    progress_.clear();
    if (!options_.asked.explain) {
      WEFT_RETURN_IF_ERROR(report_.row(row, nullptr));
      remember_busiest(of, row);
    } else if (is_advised(row)) {
      WEFT_ASSIGN(const RowAdvice advice, advise(of, scene, row.us));
      progress_.clear();
      WEFT_RETURN_IF_ERROR(report_.row(row, &advice));
    } else {
      WEFT_RETURN_IF_ERROR(report_.row(row, nullptr));
    }
    rows_.push_back(std::move(row));
    return {};
  }

  static void fill(PredictRow& row, const PredictedCase& of, const PredictScene& scene,
                   const SimulatedJob& job, const Simulation& simulation) {
    const Plan plan = job.plan(0).plan;
    row.operation = name(of.operation);
    row.algorithm =
        plan.algorithm == name(of.by.algorithm) ? of.by.name : std::string(plan.algorithm);
    row.reason = plan.reason;
    row.ranks = scene.ranks();
    row.bytes = operands_of(of, scene).input;
    row.lanes = of.lanes;
    row.lanes_used = simulation.lanes;
    row.counted = counted_bytes(of, scene);
    row.ideal_us = ideal_us(of, scene);
    row.messages = simulation.messages;
    row.alike = simulation.alike;
    row.alike_reason = simulation.why;
    row.path = explain(simulation, scene.cluster);
    row.lane_share = lane_share(simulation);
    row.lane_work = lane_work_of(simulation);
    if (const Link* link = busiest(simulation)) {
      row.busiest = name(*link, scene.cluster);
      row.busiest_share = link->bytes / (link->bytes_per_us * simulation.total_us);
    }
  }

  static void fill_details(PredictRow& row, const PredictScene& scene,
                           const Simulation& simulation) {
    row.phases = simulation.phases;
    for (const Link& link : simulation.links) {
      if (link.bytes > 0) row.links.emplace_back(name(link, scene.cluster), link);
    }
  }

  // Of the last that is predicted.
  Status draw(const PredictRow& row, const PredictScene& scene, const Simulation& simulation) {
    const PredictArguments& asked = options_.asked;
    if (!asked.run_svg.empty())
      WEFT_RETURN_IF_ERROR(save(asked.run_svg, draw_run(simulation, scene.cluster, title_of(row))));
    if (asked.plan_svg.empty()) return {};
    return save(asked.plan_svg, draw_plan(simulation, scene.cluster, title_of(row)));
  }

  PredictOptions options_;
  PredictReport report_;
  mutable Progress progress_{"weft predict"};
  std::vector<PredictRow> rows_;
  std::optional<Busy> busiest_;          // index into rows_
  std::map<int, Placement> placements_;  // by the number of ranks
  std::set<std::string> said_;           // what was left out
};

// Runs take and give back large arrays of different sizes. With a fixed bound the C library maps each of them, and what a
// run gave back is the kernel's again: 8,192 ranks take a fifth less memory.
void give_back_large_arrays() {
  constexpr int kMapped = 1 << 20;
  (void)::mallopt(M_MMAP_THRESHOLD, kMapped);
}

int run(const PredictArguments& asked) {
  give_back_large_arrays();
  Result<PredictOptions> options = understand(asked);
  if (!options.ok()) return fail(options.status());
  if (!asked.chakra.empty()) {
    stop_by_signals();
    const Status status = predict_traces(*options);
    if (is_told_to_stop()) fmt::print(stderr, "weft predict: interrupted\n");
    return is_told_to_stop() ? stopped_status() : status.ok() ? 0 : fail(status);
  }
  Result<PredictReport> report = PredictReport::open(*options);
  if (!report.ok()) return fail(report.status());
  stop_by_signals();
  const Status status = Prediction(std::move(options).value(), std::move(report).value()).run();
  return status.ok() ? stopped_status() : fail(status);
}

}  // namespace

void add_predict(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("predict", "Predict how long operations take on a cluster, and draw it");
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<PredictArguments>();
  PredictArguments& to = *arguments;
  add_cluster_options(*command, to.cluster);
  CLI::Option* operation =
      command->add_option("--operation", to.operations, "Which, separated by commas");
  command->add_option("--algorithm", to.algorithms,
                      "Of allreduce: auto, direct, mesh, ring, halving_doubling, bcube, torus, "
                      "multi_ring, hierarchical");
  command->add_option(
      "--bits", to.bits,
      "Of sums: auto, or fixed (docs/bits.md), beside whose times stands by how much "
      "they exceed those of auto");
  command->add_option("--graph", to.graph, "Graph or schedule, as `weft graph` names them");
  CLI::Option* sizes =
      command->add_option("--sizes", to.sizes, "Bytes of one rank's input, or block: 64K,1M");
  command->add_option("-n,--ranks", to.ranks, "The cluster's first so many: 4,8,16 [all]");
  command->add_option("--lanes", to.lanes,
                      "Threads of each rank that share a large operation: 1,2,4,8 [1]");
  command->add_option("--rails", to.rails,
                      "What ranks use: auto, near, all; as the engine's WEFT_RAILS");
  command->add_option("--straggler", to.stragglers, "RANK:+500us begins late, RANK:x2 is slower");
  command->add_option("--lost", to.lost,
                      "MACHINE:RAIL is gone, and ranks plan for what is left: 2:1");
  command->add_option("--message-us", to.message_us, "A processor's time per message and end")
      ->check(number_in(0.0, 1e6));
  command
      ->add_option("--combine", to.combine_gbyte_per_s,
                   "GB/s of terms that a lane reads while combining; 0: as the cluster file says, "
                   "else 10")
      ->check(number_in(0.0, 1e6));
  command->add_option("--piece", to.piece,
                      "Bytes of the pieces that messages go in: 512K [256K where a rail is one of "
                      "RDMA, else 512K]");
  command->add_option("--compute", to.compute_ms, "Milliseconds of an iteration besides")
      ->check(number_in(0.0, 1e9));
  CLI::Option* place = add_place_options(*command, to.place)->excludes("--lost");
  command->add_flag("--every-rank", to.every_rank, "Simulate all ranks, also those that are alike");
  CLI::Option* svg = command->add_option("--svg", to.svg, "Curves of the times, to this file");
  command->add_option("--title", to.title, "Above the curves")->needs(svg);
  command->add_option("--run-svg", to.run_svg, "The last run, rank by rank, to this file");
  command->add_option("--plan-svg", to.plan_svg, "Who sends to whom in the last run");
  command
      ->add_option("--chakra", to.chakra,
                   "Instead: a step that Chakra traces have, NAME.RANK.et or .json; one: all ranks "
                   "do the same")
      ->type_name("FILE …")
      ->excludes(operation)
      ->excludes(sizes)
      ->excludes(place)
      ->excludes(svg)
      ->excludes("--graph")
      ->excludes("--lanes")
      ->excludes("--straggler")
      ->excludes("--lost")
      ->excludes("--compute")
      ->excludes("--run-svg")
      ->excludes("--plan-svg");
  add_json_option(*command, to.json, "One JSON object per line");
  command->add_flag(
      "--explain", to.explain,
      "Say why the algorithm, and what the time goes into; in JSON, every phase and link");
  command->footer("\nOperations: " + measured_names() + kExamples);
  add_forecast(*command, action);
  // Also called when that was; it has left its own action then.
  command->callback([&action, arguments, command] {
    if (command->get_subcommands().empty()) action = [arguments] { return run(*arguments); };
  });
}

}  // namespace weft
