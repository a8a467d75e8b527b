// weft perf win_put, win_get, win_accumulate, win_pages and mutex: rank 0 works on the memory of
// rank 1.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "engine/context/context.h"
#include "tools/weft/perf/contenders.h"
#include "tools/weft/perf/measure.h"
#include "tools/weft/perf/one_sided.h"
#include "tools/weft/perf/perf.h"
#include "tools/weft/perf/report.h"
#include "tools/weft/perf/window_calls.h"

namespace weft {
namespace {

constexpr std::uint64_t kCheckLaps = 6;  // more than a slot has buffers
constexpr const char* kName = "perf";

class WindowPerf {
 public:
  WindowPerf(const PerfOptions& options, Context& context, Seat& seat,
             std::deque<WindowMemory>& memory)
      : options_(options), context_(context), seat_(seat), memory_(memory) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(context_.set_graph(options_.graph, true));
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
  // The window ends before its memory. If something fails, the memory outlives the context.
  Result<Row> measure_size(std::size_t bytes) {
    WEFT_ASSIGN(WindowMemory made, WindowMemory::make(seat_, options_, bytes));
    memory_.push_back(std::move(made));
    WindowMemory& memory = memory_.back();
    WEFT_RETURN_IF_ERROR(memory.make_gpu(options_, seat_.rank()));
    const std::size_t pages = options_.window == WindowOp::pages ? kPerfPages : 1;
    WEFT_ASSIGN(const Window window,
                context_.win_create(memory.window_tensor(options_.type), kName));
    WindowCalls calls(options_, context_, seat_, window, memory);
    for (std::uint64_t lap = 0; options_.asked.check && lap < kCheckLaps; ++lap)
      WEFT_RETURN_IF_ERROR(calls.check(lap));
    Row row;
    row.bytes = bytes * pages;
    row.pages = pages;
    WEFT_RETURN_IF_ERROR(contest(calls, window, row));
    WEFT_RETURN_IF_ERROR(context_.win_free(kName));
    memory_.pop_back();
    return row;
  }

  Status contest(WindowCalls& calls, const Window& window, Row& row) {
    OneSided one_sided(seat_, window, target_way(options_.asked.target));
    const auto alone = [&](const Subject& subject) {
      return Contender{
          subject, nullptr, false, [this] { return counts(); },
          [&one_sided, subject](const Trial& trial) { return one_sided.time(trial, subject); }};
    };
    std::vector<Contender> contenders{alone(calls.operation())};
    std::vector<std::optional<Score>*> places{nullptr};
    const auto add = [&](Contender contender, std::optional<Score>& place) {
      contenders.push_back(std::move(contender));
      places.push_back(&place);
    };
    WEFT_ASSIGN(const bool has_limit, has_limit_of(memory_.back(), row));
    const bool on_gpu = memory_.back().gpu.has_value();
    if (has_limit || on_gpu) add(alone(on_gpu ? calls.gpu_copies() : calls.copy()), row.limit);
    if (options_.window == WindowOp::pages) add(alone(calls.single_pages()), row.singles);
    if (options_.window == WindowOp::put && row.bytes <= kBatchedBytes) {
      add({calls.puts_in_turn(), nullptr, false, {}}, row.puts_in_turn);
      if (is_shared()) add({calls.lines_in_turn(), nullptr, false, {}}, row.lines_in_turn);
    }
    if (!options_.asked.against.empty()) add({{}, peer_.get(), true, {}}, row.peer);
    if (seat_.leads()) row.ping_pong_ns = ping_pong_ns(first_cores());
    // Calls that write pages are never batched: one call is many works.
    const std::size_t bytes = row.pages > 1 ? std::max(row.bytes, kBatchedBytes + 1) : row.bytes;
    const Contest contest{options_.asked.operation, bytes, options_.asked.seconds,
                          options_.asked.in_process};
    WEFT_ASSIGN(std::vector<Score> scores, measure(contest, contenders, seat_));
    if (!seat_.leads()) return {};
    row.own = std::move(scores[0]);
    for (std::size_t i = 1; i < scores.size(); ++i) *places[i] = std::move(scores[i]);
    return {};
  }

  // The limit is that of memory. A get of memory that Weft did not allocate needs the kernel.
  Result<bool> has_limit_of(const WindowMemory& memory, Row& row) {
    if (!is_shared() || row.pages > 1 || options_.window == WindowOp::mutex) return false;
    if (!options_.is_private() || options_.window != WindowOp::get) return true;
    return seat_.can_read(memory.tensors.outputs, row.no_limit);
  }

  [[nodiscard]] bool is_shared() const { return options_.asked.transport == "shm"; }

  [[nodiscard]] Counts counts() const {
    const Context::Usage usage = context_.usage();
    return {usage.allocations, usage.network_bytes};
  }

  const PerfOptions& options_;
  Context& context_;
  Seat& seat_;
  std::deque<WindowMemory>& memory_;
  std::unique_ptr<PeerJob> peer_;
};

}  // namespace

Status perf_window(const PerfOptions& options, const Config& config,
                   const std::shared_ptr<Store>& store) {
  if (options.on_gpu()) WEFT_RETURN_IF_ERROR(gpu_devices().status());  // loads the driver
  std::deque<WindowMemory> memory;
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_ASSIGN(const std::unique_ptr<Seat> seat, Seat::take(*store));
  Status status = WindowPerf(options, *context, *seat, memory).run();
  if (!status.ok()) seat->give_up();
  return status;
}

}  // namespace weft
