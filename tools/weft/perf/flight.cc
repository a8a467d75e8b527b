// weft perf --in-flight N: N operations started before the first is waited for, next to as many one
// after the other.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/context/context.h"
#include "tools/weft/common/bytes.h"
#include "tools/weft/common/save.h"
#include "tools/weft/perf/contenders.h"
#include "tools/weft/perf/measure.h"
#include "tools/weft/perf/perf.h"

namespace weft {
namespace {

class FlightPerf {
 public:
  FlightPerf(const PerfOptions& options, Context& context, Seat& seat)
      : options_(options), context_(context), seat_(seat) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(context_.set_graph(options_.graph, true));
    if (seat_.leads()) {
      WEFT_ASSIGN(rows_, Rows::open(options_.asked.json));
    }
    for (const std::size_t bytes : options_.sizes) WEFT_RETURN_IF_ERROR(measure_size(bytes));
    return rows_.close();
  }

 private:
  // An input that all share, and an output for each operation.
  Status measure_size(std::size_t bytes) {
    const auto operations = static_cast<std::size_t>(options_.asked.in_flight);
    const std::size_t count = options_.count(bytes);
    WEFT_ASSIGN(const Tensor input, Tensor::make(bytes, options_.is_private()));
    WEFT_ASSIGN(const Tensor output, Tensor::make(operations * bytes, options_.is_private()));
    const Input x{input.data(), count, options_.type};
    const auto y = [&](std::size_t k) {
      return Output{static_cast<std::byte*>(output.data()) + k * bytes, count, options_.type};
    };
    std::vector<Handle> handles;
    handles.reserve(operations);
    const auto together = [&](int) -> Status {
      handles.clear();
      for (std::size_t k = 0; k < operations; ++k) {
        WEFT_ASSIGN(Handle handle, context_.neighbor_allreduce_start(x, y(k)));
        handles.push_back(std::move(handle));
      }
      for (Handle& handle : handles) WEFT_RETURN_IF_ERROR(handle.wait());
      return {};
    };
    const auto singly = [&](int) -> Status {
      for (std::size_t k = 0; k < operations; ++k)
        WEFT_RETURN_IF_ERROR(context_.neighbor_allreduce(x, y(k)));
      return {};
    };
    std::vector<Contender> contenders(2);
    contenders[0].subject.run = together;
    contenders[1].subject.run = singly;
    // As bytes of a lap, which is all the operations: it is never batched.
    const Contest contest{name(options_.collective),
                          std::max(operations * bytes, kBatchedBytes + 1), options_.asked.seconds,
                          options_.asked.in_process};
    WEFT_ASSIGN(const std::vector<Score> scores, measure(contest, contenders, seat_));
    return seat_.leads() ? print(bytes, scores[0], scores[1]) : Status();
  }

  Status print(std::size_t bytes, const Score& together, const Score& singly) const {
    const PerfArguments& asked = options_.asked;
    const double each = median(together.laps_us) / asked.in_flight;
    const double alone = median(singly.laps_us) / asked.in_flight;
    const double speedup = paired_ratio(singly, together);
    const std::string text = fmt::format(
        "{} x {}: {:.2f} us each in flight together, {:.2f} us one at a time: {:.2f} times\n",
        asked.in_flight, bytes_text(bytes), each, alone, speedup);
    const nlohmann::ordered_json object{{"op", asked.operation},
                                        {"graph", asked.graph},
                                        {"ranks", asked.ranks},
                                        {"transport", asked.transport},
                                        {"bytes", bytes},
                                        {"in_flight", asked.in_flight},
                                        {"p50_us", each},
                                        {"single_p50_us", alone},
                                        {"in_flight_speedup", speedup}};
    return rows_.row(text, object.dump());
  }

  const PerfOptions& options_;
  Context& context_;
  Seat& seat_;
  Rows rows_;  // of rank 0
};

}  // namespace

Status perf_in_flight(const PerfOptions& options, const Config& config,
                      const std::shared_ptr<Store>& store) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_ASSIGN(const std::unique_ptr<Seat> seat, Seat::take(*store));
  Status status = FlightPerf(options, *context, *seat).run();
  if (!status.ok()) seat->give_up();
  return status;
}

}  // namespace weft
