// weft perf: measures an operation next to the machine's limit and to other libraries.
#include "tools/weft/perf/perf.h"

#include <fmt/format.h>

#include "tools/weft/commands.h"
#include "tools/weft/common/own_ranks.h"
#include "tools/weft/common/save.h"
#include "tools/weft/perf/plot.h"
#include "tools/weft/strategies/strategies.h"
#include "tools/weft/wire/wire.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
(--graph of hierarchical_neighbor_allreduce is that of the --hosts machines; sizes of alltoall, scatter and
reduce_scatter are those of a block per rank); or win_put, win_get, win_accumulate, win_pages or mutex, which
rank 0 does to the memory of rank 1 (sizes of win_pages are those of a page; --target says what
rank 1 does meanwhile; docs/performance.md says more); or named, for a model's tensors submitted by
name (--tensors, --compute), beside one operation on all of them; or limits, for the machine's own figures; or
idle, for what an unused engine costs. Without `weft run` around it, the ranks are started here,
rank r on core r modulo their number. Every rank's input is rewritten before each timed call (up to
4K: calls go back to back); a time is from the first rank's begin to the last one's end. The limit
and the peer are timed by the same code, in turn with Weft's operation; share and speedup are
medians of those rounds' ratios. Ctrl-C ends it: the rows so far are printed and in the JSON file, which --from draws.

Examples:
  weft perf neighbor_allreduce --ranks 4 --check
  weft perf neighbor_allreduce --ranks 2 --graph ring --sizes 64K,1M --against openmpi --json out.json
  weft perf neighbor_allreduce --against openmpi-huge     its buffers in huge pages, like ours
  weft perf neighbor_allreduce --dynamic --sizes 4        weights that change at every call
  weft perf allreduce --prepared --sizes 4,64             prepared once, beside calls that are not
  weft perf neighbor_allreduce --memory private           buffers that Weft did not allocate
  weft perf neighbor_allreduce --memory device            GPU memory; the limit is its copies
  weft perf neighbor_allreduce --transport ucx --explain  over the network, and which way
  weft perf neighbor_allreduce --transport ucx --sizes 4K --in-flight 1000
  weft perf hierarchical_neighbor_allreduce --hosts 2 --transport automatic --check
  weft perf allreduce --algorithm halving_doubling --sizes 64K
  weft perf allreduce --bits fixed --sizes 1M             what the same bits everywhere cost
  weft perf allreduce --against openmpi --json all.json --svg all.svg
  weft perf --from all.json --svg all.svg                 drawn, not measured
  weft perf allreduce --lanes 2 --sizes 16M --ranks 2     two threads a rank; ranks are not bound to cores then
  weft perf neighbor_allreduce --memory-use               bytes per rank by degree
  weft perf win_put --sizes 4,4K,1M --check --against openmpi   beside MPI_Put and MPI_Win_flush
  weft perf win_put --against openmpi-create              its window made by MPI_Win_create
  weft perf win_get --target stopped --transport ib       the target stopped by SIGSTOP meanwhile
  weft perf named --tensors bert --compute 50             tensors by name, 50 ms of computing between them
  weft perf limits --ranks 2
  weft perf idle --seconds 10
  weft perf wire --op write                               one path between two processes: weft perf wire --help
  weft perf strategies --straggler +2x                    training with a slow rank: weft perf strategies --help
  weft run -n 4 -- weft perf allreduce)";

int fail(const Status& status) {
  fmt::print(stderr, "weft perf: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

// `lanes`: of each rank. The threads of several lanes need more than one core.
int start_ranks(int ranks, int lanes) {
  const Result<int> status = run_own_ranks(ranks, lanes > 1 ? Binding::none : Binding::core);
  return status.ok() ? *status : fail(status.status());
}

// A transport that is asked for here is the only one, and ranks are on the machines asked for.
Config as_asked(const PerfOptions& options, Config config, Rank rank) {
  if (options.asked.lanes > 0) config.lanes = options.asked.lanes;
  if (options.asked.hosts > 1) config.host = fmt::format("host{}", options.machine_of(rank));
  if (options.asked.transport == "shm") config.transports = {.automatic = false, .shm = true};
  if (options.asked.transport == "ucx")
    config.transports = {.automatic = false, .shm = false, .ucx = true};
  if (options.asked.transport == "ib")
    config.transports = {.automatic = false, .shm = false, .ib = true};
  return config;
}

Status run_rank(const PerfOptions& options, const Config& given,
                const std::shared_ptr<Store>& store) {
  const Config config = as_asked(options, given, store->rank());
  if (options.asked.operation == "limits") return perf_limits(options, config, store);
  if (options.asked.operation == "idle") return perf_idle(options, config, store);
  if (options.tensors) return perf_named(options, config, store);
  if (options.window) return perf_window(options, config, store);
  if (options.asked.in_flight != 0) return perf_in_flight(options, config, store);
  return perf_operation(options, config, store);
}

// One rank of a job that somebody started: `weft run`, or start_ranks above.
int join(PerfArguments arguments, Config config) {
  const Result<std::shared_ptr<Store>> store = open_store(config);
  if (!store.ok()) return fail(store.status());
  arguments.ranks = config.size;
  const Result<PerfOptions> options = understand(arguments);
  if (!options.ok()) return config.rank == 0 ? fail(options.status()) : kUsageError;
  const Status status = run_rank(*options, config, *store);
  const Status left = (*store)->goodbye(Deadline::after_ms(config.deadline_ms));
  if (status.ok()) return left.ok() ? 0 : fail(left);
  if (status.code() == Code::unavailable && options->asked.transport == "shm")
    fmt::print(stderr, "weft perf: {}\n", kShmEnds);
  // Who only lost a rank that failed leaves the word to that rank.
  return status.code() == Code::peer_left ? 1 : fail(status);
}

// Rows that were measured before.
Status draw(const PerfArguments& arguments) {
  WEFT_ASSIGN(const std::vector<std::string> rows, read_rows(arguments.from));
  WEFT_ASSIGN(const std::string picture, perf_svg(rows, arguments.from));
  return save(arguments.svg, picture);
}

int run(PerfArguments arguments) {
  if (!arguments.from.empty()) {
    const Status drawn = draw(arguments);
    return drawn.ok() ? 0 : fail(drawn);
  }
  const Result<Config> config = Config::from_environment(UnknownNames::refuse);
  if (!config.ok()) return fail(config.status());
  const bool speaks =
      config->launcher != Launcher::alone ? config->rank == 0 : arguments.in_process;
  for (const std::string& line : fit_settings(arguments, *config))
    if (speaks) fmt::print(stderr, "weft perf: {}\n", line);
  if (config->launcher != Launcher::alone) return join(arguments, *config);
  const Result<PerfOptions> options = understand(arguments);
  if (!options.ok()) return fail(options.status());
  Status status;
  if (arguments.memory_use) {
    status = perf_memory_use(*options, *config);
  } else if (arguments.in_process) {
    status = run_as_threads(arguments.ranks, *config, [&](const std::shared_ptr<Store>& store) {
      return run_rank(*options, *config, store);
    });
  } else {
    return start_ranks(arguments.ranks, arguments.lanes != 0 ? arguments.lanes : config->lanes);
  }
  return status.ok() ? 0 : fail(status);
}

}  // namespace

void add_perf(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "perf", "Measure an operation next to the machine's limit and other libraries");
  command->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<PerfArguments>();
  PerfArguments& to = *arguments;
  command->add_option("operation", to.operation, "What to measure");
  command->add_option("--graph", to.graph, "Graph, as `weft graph` names them");
  command->add_option("-n,--ranks", to.ranks, "Number of ranks");
  command->add_option("--hosts", to.hosts,
                      "Machines that the ranks here play, each with its share");
  command->add_option("--lanes", to.lanes,
                      "Threads of a rank that share large operations; 0: as WEFT_LANES says");
  command->add_option("--algorithm", to.algorithm,
                      "Of allreduce: auto, direct, mesh, ring, halving_doubling, bcube, torus, "
                      "multi_ring, hierarchical, nccl");
  command->add_option("--bits", to.bits,
                      "Of sums: auto, or fixed (docs/bits.md), which is timed beside auto");
  command->add_option(
      "--compression", to.compression,
      "Of neighbor_allreduce, allreduce, named, win_put and win_accumulate: f16, "
      "bf16, sketch, e4m3, e5m2, low_rank (of a matrix that is nearly a square); none");
  command->add_option("--sizes", to.sizes, "Bytes of one rank's input, or block: 4,64K,1M");
  command->add_option("--transport", to.transport,
                      "shm, ib, ucx, or automatic: as a program with these settings "
                      "[WEFT_TRANSPORTS, WEFT_INTERFACES; without them shm]");
  command->add_option("--memory", to.memory,
                      "Buffers: weft (weft::allocate), private, or device (a GPU)");
  command->add_option("--type", to.type,
                      "Elements: e4m3, e5m2, f16, bf16, f32, f64, i16, i32, i64, bytes");
  command->add_option("--target", to.target,
                      "What rank 1 does during an operation of a window: waits (for a signal), "
                      "sleeps, computes, stopped (by SIGSTOP)");
  command->add_option(
      "--tensors", to.tensors,
      "Of named: resnet50, bert, 1000x1024 (tensors of so many elements), or a file "
      "with a line `NAME 64x3x7x7` for each");
  command->add_option("--compute", to.compute_ms,
                      "Of named: milliseconds of computing, before the tensors by their sizes");
  command->add_flag("--autotune", to.autotune,
                    "Of named: also after a search for the best settings");
  add_measuring_options(*command, to, "openmpi, openmpi-huge; of windows openmpi, openmpi-create");
  CLI::Option* svg = command->add_option("--svg", to.svg, "Draw the rows to this file");
  command->add_option("--from", to.from, "Draw the rows of this file, which --json wrote")
      ->needs(svg);
  command->add_option("--in-flight", to.in_flight, "Start so many operations before waiting");
  command->add_flag("--explain", to.explain, "Say which path each peer got, and why");
  command->add_flag("--dynamic", to.dynamic, "Give other weights at every call");
  command->add_flag("--prepared", to.prepared,
                    "Also the operation prepared once (weft/prepared.h)");
  command->add_flag("--in-place", to.in_place, "Input and output are the same memory");
  command->add_flag("--check", to.check, "Compare every result with a double-precision reference");
  command->add_flag("--memory-use", to.memory_use, "Bytes that a rank holds, by degree");
  command->add_flag("--in-process", to.in_process, "Ranks are threads of one process");
  command->footer("\nOPERATION is " + measured_names() + kExamples);
  add_wire(*command, action);
  add_strategies(*command, action);
  // Also called when one of these was; that has left its own action then.
  command->callback([&action, arguments, command] {
    if (!command->get_subcommands().empty()) return;
    fit_window(*arguments, command->count("--ranks") > 0, command->count("--sizes") > 0);
    action = [arguments] { return run(*arguments); };
  });
}

}  // namespace weft
