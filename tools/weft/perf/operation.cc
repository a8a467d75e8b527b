// One operation, size by size.
#include <fmt/format.h>

#include <algorithm>

#include "engine/context/context.h"
#include "engine/gpu/gpu.h"
#include "tools/weft/perf/contenders.h"
#include "tools/weft/perf/gpu.h"
#include "tools/weft/perf/measure.h"
#include "tools/weft/perf/perf.h"
#include "tools/weft/perf/report.h"

namespace weft {
namespace {

// Results compared without meetings in between, before anything is timed.
constexpr int kFreeLaps = 20;
constexpr int kFreeLapsLarge = 3;
constexpr std::size_t kLarge = 1 << 20;

class OperationPerf {
 public:
  OperationPerf(const PerfOptions& options, Context& context, Seat& seat)
      : options_(options), context_(context), seat_(seat) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(options_.is_over_machines()
                             ? context_.set_machine_graph(options_.graph, true)
                             : context_.set_graph(options_.graph, true));
    if (seat_.leads()) {
      WEFT_ASSIGN(peer_, open_peer(options_));
    }
    WEFT_RETURN_IF_ERROR(report_sizes(options_, seat_.leads(),
                                      [this](std::size_t bytes) { return measure_size(bytes); }));
    if (seat_.leads() && options_.asked.explain)
      fmt::print(stderr, "rank 0: {}", context_.explain());
    return {};
  }

 private:
  Result<Row> measure_size(std::size_t bytes) {
    const std::size_t count = options_.count(bytes);
    const Recipe own = options_.recipe_of(seat_.rank());
    WEFT_ASSIGN(const Tensors tensors,
                Tensors::make(seat_, options_.type, own.blocks * count, output_count(own, count),
                              options_.is_private()));
    OwnCalls calls(options_, options_.asked.dynamic, context_, tensors);
    std::optional<GpuTensors> gpu;
    if (options_.on_gpu()) {
      WEFT_ASSIGN(GpuTensors made,
                  GpuTensors::make(tensors, options_.type, output_count(own, count),
                                   options_.asked.in_place, seat_.rank()));
      gpu.emplace(std::move(made));
      calls.use(gpu->x(), gpu->y());
    }
    OwnCalls fixed(options_, false, context_, tensors);
    if (gpu) fixed.use(gpu->x(), gpu->y());
    OwnCalls usual(options_, options_.asked.dynamic, context_, tensors);
    usual.use(Bits::automatic);
    if (gpu) usual.use(gpu->x(), gpu->y());
    FloorCalls cached(options_, false, seat_, tensors);
    FloorCalls streaming(options_, true, seat_, tensors);
    if (options_.asked.check) {
      WEFT_RETURN_IF_ERROR(check_running_free(gpu ? gpu->around(calls.subject()) : calls.subject(),
                                              bytes < kLarge ? kFreeLaps : kFreeLapsLarge));
    }
    const auto counts = [this] {
      const Context::Usage usage = context_.usage();
      return Counts{usage.allocations, usage.network_bytes};
    };
    std::vector<Contender> contenders{
        {gpu ? gpu->around(calls.subject()) : calls.subject(), nullptr, false, counts}};
    Row row;
    row.bytes = bytes;
    WEFT_ASSIGN(const bool has_limit, has_limit_of(tensors, row));
    Subject limit = gpu ? gpu->copies() : cached.subject();
    if (gpu) {
      WEFT_ASSIGN(row.reads_gpus, reads_gpus_of_peers(*gpu, calls));
      if (row.reads_gpus) {
        WEFT_ASSIGN(limit, gpu->inside(options_.type, terms_of(own)));
      }
    }
    if (has_limit) contenders.push_back({limit, nullptr, false, {}});
    const bool streams = has_limit && !gpu && bytes >= kStreamingFrom;
    if (streams) contenders.push_back({streaming.subject(), nullptr, false, {}});
    if (options_.asked.dynamic) contenders.push_back({fixed.subject(), nullptr, false, {}});
    if (options_.bits == Bits::fixed)
      contenders.push_back(
          {gpu ? gpu->around(usual.subject()) : usual.subject(), nullptr, false, {}});
    if (options_.asked.prepared) {
      WEFT_ASSIGN(Subject prepared, fixed.prepared());
      contenders.push_back({gpu ? gpu->around(prepared) : prepared, nullptr, false, {}});
    }
    if (!options_.asked.against.empty()) contenders.push_back({{}, peer_.get(), true, {}});
    if (seat_.leads()) row.ping_pong_ns = ping_pong_ns(first_cores());
    const Contest contest{name(options_.collective), bytes, options_.asked.seconds,
                          options_.asked.in_process};
    const GpuUsage before = gpu_usage();
    WEFT_ASSIGN(std::vector<Score> scores, measure(contest, contenders, seat_));
    const GpuUsage after = gpu_usage();
    row.by_nccl = after.by_nccl - before.by_nccl >
                  after.with_aliases - before.with_aliases + after.with_blocks - before.with_blocks;
    if (seat_.leads()) sort_out(scores, has_limit, streams, row);
    return row;
  }

  // Whether ranks read each other's GPU memory in place, as after the first few operations; on all
  // ranks alike. Rank 0 may have nothing to send or to receive.
  Result<bool> reads_gpus_of_peers(GpuTensors& gpu, OwnCalls& calls) {
    constexpr int kUntilPeersHaveTried = 4;
    Subject subject = gpu.around(calls.subject());
    for (int lap = 0; lap < kUntilPeersHaveTried; ++lap) {
      subject.rewrite(static_cast<std::uint64_t>(lap));
      WEFT_RETURN_IF_ERROR(context_.barrier());
      WEFT_RETURN_IF_ERROR(subject.run(1));
    }
    const std::uint64_t before = gpu_usage().with_aliases;
    WEFT_RETURN_IF_ERROR(subject.run(1));
    double mine = gpu_usage().with_aliases > before ? 1 : 0, any = 0;
    WEFT_RETURN_IF_ERROR(context_.allreduce(in(&mine, 1), out(&any, 1), ReduceOp::max));
    return any != 0;
  }

  // What a rank's GPU has to read: all sources of a sum; in an allreduce about two, as ranks divide the
  // work.
  [[nodiscard]] std::size_t terms_of(const Recipe& own) const {
    constexpr std::size_t kMost = 8;
    if (own.concatenates || own.sources.size() < 2) return 1;
    return options_.collective == Collective::allreduce ? 2 : std::min(own.sources.size(), kMost);
  }

  // The limit of GPU memory is what copying input and output takes, both at once; where ranks
  // read each other's memory, what a sum or a copy takes on a GPU's own. The floor is that of shared
  // memory. Memory that Weft did not allocate can be read only where the
  // kernel permits it; the engine has another way then, which is no limit.
  Result<bool> has_limit_of(const Tensors& tensors, Row& row) {
    if (options_.on_gpu()) return tensors.count != 0;
    if (!has_floor(options_.collective) || options_.asked.transport != "shm") return false;
    if (!options_.is_private()) return true;
    WEFT_ASSIGN(const bool inputs, seat_.can_read(tensors.inputs, row.no_limit));
    WEFT_ASSIGN(const bool outputs, seat_.can_read(tensors.outputs, row.no_limit));
    return inputs && outputs;
  }

  // The scores by name, taken from the end; of the two floors the faster one is the limit.
  void sort_out(std::vector<Score>& scores, bool has_limit, bool streams, Row& row) const {
    const auto last = [&scores] {
      Score score = std::move(scores.back());
      scores.pop_back();
      return score;
    };
    if (!options_.asked.against.empty()) row.peer = last();
    if (options_.asked.prepared) row.prepared = last();
    if (options_.bits == Bits::fixed) row.usual = last();
    if (options_.asked.dynamic) row.fixed = last();
    if (has_limit) row.limit = last();
    if (streams) {
      Score cached = last();
      if (median(cached.laps_us) < median(row.limit->laps_us)) row.limit = std::move(cached);
    }
    row.own = last();
  }

  const PerfOptions& options_;
  Context& context_;
  Seat& seat_;
  std::unique_ptr<PeerJob> peer_;
};

}  // namespace

Status perf_operation(const PerfOptions& options, const Config& config,
                      const std::shared_ptr<Store>& store) {
  if (options.on_gpu()) WEFT_RETURN_IF_ERROR(gpu_devices().status());  // loads the driver
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_ASSIGN(const std::unique_ptr<Seat> seat, Seat::take(*store));
  Status status = OperationPerf(options, *context, *seat).run();
  if (!status.ok()) seat->give_up();
  return status;
}

}  // namespace weft
