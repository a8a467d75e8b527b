// weft perf named: a model's tensors submitted by name, in several ways, each beside one ordered
// operation on a tensor of the same total size.
#include <fmt/format.h>
#include <time.h>
#include <weft/named.h>

#include <array>
#include <nlohmann/json.hpp>

#include "engine/context/context.h"
#include "tools/weft/common/save.h"
#include "tools/weft/perf/contenders.h"
#include "tools/weft/perf/gpu.h"
#include "tools/weft/perf/measure.h"
#include "tools/weft/perf/perf.h"
#include "tools/weft/perf/tensors.h"

namespace weft {
namespace {

// A way of submitting the tensors.
struct WayKind {
  const char* name;
  const char* about;
  Collective collective;
  bool is_group;
  bool fuses;
  bool is_tuned = false;  // measured with --autotune only
};
constexpr std::array<WayKind, 6> kWays = {{
    {"group", "one group, allreduce", Collective::allreduce, true, true},
    {"names", "each by its name, allreduce", Collective::allreduce, false, true},
    {"tuned", "the same after NamedOptions::autotune", Collective::allreduce, false, true, true},
    {"unfused", "each by its name, allreduce, never fused", Collective::allreduce, false, false},
    {"neighbors", "each by its name, neighbor_allreduce", Collective::neighbor_allreduce, false,
     true},
    {"unfused_neighbors", "the same, never fused", Collective::neighbor_allreduce, false, false},
}};

// Computes for so long, on this thread's clock: other ranks may have the core meanwhile.
void compute(double us) {
  const auto cpu_us = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
  };
  if (us <= 0) return;
  const double end = cpu_us() + us;
  while (cpu_us() < end) continue;
}

// The tensors lie one behind the other; the last one of the model is submitted first, as backward
// passes make gradients.
class Model {
 public:
  static Result<Model> make(const PerfOptions& options, Rank local_rank) {
    const std::size_t bytes = options.tensors->count() * sizeof(float);
    WEFT_ASSIGN(PlacedTensor x, PlacedTensor::make(bytes, options, local_rank));
    WEFT_ASSIGN(PlacedTensor y, PlacedTensor::make(bytes, options, local_rank));
    return Model(options, std::move(x), std::move(y));
  }

  [[nodiscard]] std::size_t size() const { return set_->tensors.size(); }
  [[nodiscard]] std::size_t count() const { return set_->count(); }
  [[nodiscard]] const std::string& name(std::size_t t) const { return set_->tensors[t].name; }
  [[nodiscard]] Request request(Collective collective, std::size_t t) const {
    return request(collective, begins_[t], set_->tensors[t].count);
  }
  [[nodiscard]] Request whole(Collective collective) const {
    return request(collective, 0, count());
  }
  // What comes before the tensor's gradient is there: its share of the computation.
  void compute_for(std::size_t t) const {
    if (compute_us_ == 0) return;
    compute(compute_us_ * static_cast<double>(set_->tensors[t].count) /
            static_cast<double>(count()));
  }
  void compute_all() const { compute(compute_us_); }

  Status rewrite(std::uint64_t lap, Rank rank) const {
    auto* const x = static_cast<float*>(x_.here());
    const std::size_t all = count();
    for (std::size_t i = 0; i < all; ++i)
      x[i] = static_cast<float>((i * 7 + lap * 3 + static_cast<std::size_t>(rank)) % 64);
    return x_.put();
  }
  [[nodiscard]] Result<std::span<const float>> results() const {
    WEFT_RETURN_IF_ERROR(y_.get());
    return std::span<const float>(static_cast<const float*>(y_.here()), count());
  }

 private:
  Model(const PerfOptions& options, PlacedTensor x, PlacedTensor y)
      : set_(&*options.tensors),
        compression_(options.compression),
        x_(std::move(x)),
        y_(std::move(y)),
        compute_us_(options.asked.compute_ms * 1e3) {
    std::size_t begin = 0;
    for (const TensorSet::Tensor& tensor : set_->tensors) {
      begins_.push_back(begin);
      begin += tensor.count;
    }
  }
  [[nodiscard]] Request request(Collective collective, std::size_t begin, std::size_t count) const {
    Request request;
    request.collective = collective;
    request.input = in(static_cast<const float*>(x_.there()) + begin, count);
    request.output = out(static_cast<float*>(y_.there()) + begin, count);
    request.op = ReduceOp::sum;
    request.compression = compression_;
    return request;
  }

  const TensorSet* set_;
  Compression compression_;
  PlacedTensor x_, y_;
  double compute_us_;
  std::vector<std::size_t> begins_;
};

// One way, with operations by name of its own.
class Way {
 public:
  static Result<Way> open(const WayKind& kind, const Model& model, Context& context) {
    NamedOptions options;
    options.cache_capacity = std::min<std::size_t>(2 * model.size() + 1024, 65'536);
    if (!kind.fuses) options.fusion_bytes = 0;
    options.autotune = kind.is_tuned;
    WEFT_ASSIGN(Named named, context.named(options));
    Way way(kind, model, std::move(named));
    WEFT_RETURN_IF_ERROR(way.run());  // the names are new now
    if (kind.is_tuned) WEFT_RETURN_IF_ERROR(way.tune(context));
    WEFT_RETURN_IF_ERROR(context.barrier());
    WEFT_ASSIGN(way.first_, way.named_.usage());
    way.laps_ = 0;
    way.submits_us_.clear();
    return way;
  }

  Status run() {
    ++laps_;
    double submit_us = 0;
    const Status status = kind_->is_group ? run_group(submit_us) : run_names(submit_us);
    submits_us_.push_back(submit_us / static_cast<double>(model_->size()));
    return status;
  }
  // Runs until rank 0 has found the best settings.
  Status tune(Context& context) {
    constexpr int kMostRounds = 3000;
    std::int32_t goes_on = 1;
    for (int round = 0; goes_on != 0 && round < kMostRounds; ++round) {
      WEFT_RETURN_IF_ERROR(run());
      WEFT_ASSIGN(const Named::Usage usage, named_.usage());
      goes_on = usage.is_tuning ? 1 : 0;
      WEFT_RETURN_IF_ERROR(context.broadcast(in(&goes_on, 1), out(&goes_on, 1), 0));
    }
    return {};
  }
  [[nodiscard]] const WayKind& kind() const { return *kind_; }
  // Time of a submission: the mean of a lap, the median of laps.
  [[nodiscard]] double submit_us() const { return median(submits_us_); }
  // What a lap does, on average.
  struct Costs {
    double batches = 0;
    double cycles = 0;
    double control_bytes = 0;
    double coordinator_messages = 0;
    std::vector<double> batches_by_names;
    std::string settings;  // what was fused by, and the wait
  };
  [[nodiscard]] Result<Costs> costs() {
    WEFT_ASSIGN(const Named::Usage now, named_.usage());
    const auto per_lap = [this](std::uint64_t before, std::uint64_t after) {
      return static_cast<double>(after - before) / static_cast<double>(laps_);
    };
    Costs costs;
    costs.batches = per_lap(first_.batches, now.batches);
    costs.cycles = per_lap(first_.cycles, now.cycles);
    costs.control_bytes = per_lap(first_.control_bytes, now.control_bytes);
    costs.coordinator_messages = per_lap(first_.coordinator_messages, now.coordinator_messages);
    costs.settings =
        fmt::format("fusion_bytes {}, fused_tensor_bytes {}, gather_us {}, piece_bytes {}",
                    now.fusion_bytes, now.fused_tensor_bytes, now.gather_us, now.piece_bytes);
    for (std::size_t bin = 0; bin < now.batches_by_names.size(); ++bin)
      costs.batches_by_names.push_back(
          per_lap(first_.batches_by_names[bin], now.batches_by_names[bin]));
    return costs;
  }
  Status end() { return named_.end(); }

 private:
  Way(const WayKind& kind, const Model& model, Named named)
      : kind_(&kind), model_(&model), named_(std::move(named)) {}

  Status run_group(double& submit_us) {
    requests_.clear();
    for (std::size_t t = model_->size(); t-- > 0;) {
      model_->compute_for(t);
      requests_.push_back(model_->request(kind_->collective, t));
    }
    const std::int64_t begin = now_ns();
    WEFT_ASSIGN(Handle handle, named_.start_group("model", requests_));
    submit_us += static_cast<double>(now_ns() - begin) / 1e3;
    return handle.wait();
  }

  Status run_names(double& submit_us) {
    std::vector<Handle> handles;
    handles.reserve(model_->size());
    for (std::size_t t = model_->size(); t-- > 0;) {
      model_->compute_for(t);
      const std::int64_t begin = now_ns();
      WEFT_ASSIGN(Handle handle,
                  named_.start(model_->name(t), model_->request(kind_->collective, t)));
      submit_us += static_cast<double>(now_ns() - begin) / 1e3;
      handles.push_back(std::move(handle));
    }
    for (Handle& handle : handles) WEFT_RETURN_IF_ERROR(handle.wait());
    return {};
  }

  const WayKind* kind_;
  const Model* model_;
  Named named_;
  Named::Usage first_;
  std::uint64_t laps_ = 0;
  std::vector<double> submits_us_;
  std::vector<Request> requests_;
};

class NamedPerf {
 public:
  NamedPerf(const PerfOptions& options, Context& context, Seat& seat)
      : options_(options), context_(context), seat_(seat) {}

  Status run() {
    WEFT_RETURN_IF_ERROR(context_.set_graph(options_.graph));
    WEFT_ASSIGN(const Context::Placement placement, context_.placement());
    WEFT_ASSIGN(const Model model, Model::make(options_, placement.local_rank));
    WEFT_RETURN_IF_ERROR(model.rewrite(0, context_.rank()));
    if (seat_.leads()) {
      WEFT_ASSIGN(rows_, Rows::open(options_.asked.json));
      WEFT_RETURN_IF_ERROR(rows_.text(head(model)));
    }
    for (const WayKind& kind : kWays) {
      if (kind.is_tuned && !options_.asked.autotune) continue;
      WEFT_ASSIGN(Way way, Way::open(kind, model, context_));
      WEFT_RETURN_IF_ERROR(measure_way(model, way));
      WEFT_RETURN_IF_ERROR(way.end());
    }
    return rows_.close();
  }

 private:
  Status measure_way(const Model& model, Way& way) {
    std::vector<Contender> contenders(2);
    contenders[0].subject.run = [&](int) { return way.run(); };
    contenders[1].subject.run = [&](int) {
      model.compute_all();
      return context_.run(model.whole(way.kind().collective));
    };
    // Of the lap of the way: it is never batched.
    const Contest contest{"named", std::max(model.count() * sizeof(float), kBatchedBytes + 1),
                          options_.asked.seconds / static_cast<double>(kWays.size()),
                          options_.asked.in_process};
    WEFT_ASSIGN(const std::vector<Score> scores, measure(contest, contenders, seat_));
    if (options_.asked.check) WEFT_RETURN_IF_ERROR(check(model, way));
    WEFT_ASSIGN(const Way::Costs costs, way.costs());
    return seat_.leads() ? print(model, way, costs, scores) : Status();
  }

  // The names give the bits of the whole. The tensors hold small whole numbers, so sums are exact.
  Status check(const Model& model, Way& way) {
    WEFT_RETURN_IF_ERROR(model.rewrite(1, context_.rank()));
    WEFT_RETURN_IF_ERROR(context_.run(model.whole(way.kind().collective)));
    WEFT_ASSIGN(const std::span<const float> of_whole, model.results());
    const std::vector<float> wanted(of_whole.begin(), of_whole.end());
    WEFT_RETURN_IF_ERROR(way.run());
    WEFT_ASSIGN(const std::span<const float> found, model.results());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (found[i] == wanted[i]) continue;
      return Status(Code::mismatch, fmt::format("{}: element {} is {}, expected {}",
                                                way.kind().name, i, found[i], wanted[i]));
    }
    return {};
  }

  [[nodiscard]] std::string head(const Model& model) const {
    const PerfArguments& asked = options_.asked;
    const std::string about = fmt::format(
        "named: {} tensors of {}, {:.2f} MiB in all; {} ranks, {}{}{}\n", model.size(),
        options_.tensors->name, static_cast<double>(model.count() * sizeof(float)) / 1048576,
        asked.ranks, asked.transport, asked.memory == "device" ? ", on GPUs" : "",
        asked.compute_ms > 0
            ? fmt::format(", {} ms of computing before the last tensor", asked.compute_ms)
            : "");
    return about + fmt::format("{:<18} {:>9} {:>9} {:>6} {:>9} {:>8} {:>7} {:>9} {:>10}\n", "way",
                               "us", "one, us", "ratio", "submit us", "batches", "rounds",
                               "control B", "to rank 0");
  }

  [[nodiscard]] Status print(const Model& model, const Way& way, const Way::Costs& costs,
                             const std::vector<Score>& scores) const {
    const PerfArguments& asked = options_.asked;
    const double us = median(scores[0].laps_us);
    const double one_us = median(scores[1].laps_us);
    const double ratio = paired_ratio(scores[0], scores[1]);
    std::string text = fmt::format(
        "{:<18} {:>9.0f} {:>9.0f} {:>6.2f} {:>9.2f} {:>8.1f} {:>7.1f} {:>9.0f} {:>10.1f}\n",
        way.kind().name, us, one_us, ratio, way.submit_us(), costs.batches, costs.cycles,
        costs.control_bytes, costs.coordinator_messages);
    text += fmt::format("  {}; batches by names:{}\n", way.kind().about, histogram(costs));
    if (way.kind().is_tuned) text += fmt::format("  {}\n", costs.settings);
    const nlohmann::ordered_json object{{"op", "named"},
                                        {"set", options_.tensors->name},
                                        {"way", way.kind().name},
                                        {"ranks", asked.ranks},
                                        {"transport", asked.transport},
                                        {"memory", asked.memory},
                                        {"tensors", model.size()},
                                        {"bytes", model.count() * sizeof(float)},
                                        {"compute_ms", asked.compute_ms},
                                        {"p50_us", us},
                                        {"one_p50_us", one_us},
                                        {"ratio", ratio},
                                        {"submit_us", way.submit_us()},
                                        {"batches", costs.batches},
                                        {"cycles", costs.cycles},
                                        {"control_bytes", costs.control_bytes},
                                        {"coordinator_messages", costs.coordinator_messages},
                                        {"batches_by_names", costs.batches_by_names},
                                        {"settings", costs.settings}};
    return rows_.row(text, object.dump());
  }

  static std::string histogram(const Way::Costs& costs) {
    std::string text;
    for (std::size_t bin = 0; bin < costs.batches_by_names.size(); ++bin) {
      if (costs.batches_by_names[bin] == 0) continue;
      const std::size_t least = std::size_t{1} << bin;
      const std::string names = bin == 0 ? "1" : fmt::format("{}-{}", least, 2 * least - 1);
      text += fmt::format(" {:.1f} of {}", costs.batches_by_names[bin], names);
    }
    return text;
  }

  const PerfOptions& options_;
  Context& context_;
  Seat& seat_;
  Rows rows_;  // of rank 0
};

}  // namespace

Status perf_named(const PerfOptions& options, const Config& config,
                  const std::shared_ptr<Store>& store) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_ASSIGN(const std::unique_ptr<Seat> seat, Seat::take(*store));
  Status status = NamedPerf(options, *context, *seat).run();
  if (!status.ok()) seat->give_up();
  return status;
}

}  // namespace weft
