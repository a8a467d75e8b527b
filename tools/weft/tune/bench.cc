// bench: see the header.
#include "tools/weft/tune/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/limits/laps.h"
#include "tools/weft/common/stop.h"

namespace weft {
namespace {

constexpr int kNamedTensors = 32;
constexpr int kMostBatch = 500;
constexpr double kBatchUs = 2000;
constexpr int kMostLaps = 50;
constexpr int kUsualRounds = 7;
constexpr int kMostRounds = 25;
constexpr double kMostTrialS = 0.15;  // so that Ctrl-C is heard soon
constexpr int kWarmUpLaps = 10;
constexpr double kSlowUs = 30'000;

Result<std::shared_ptr<void>> memory_of(std::size_t bytes) {
  WEFT_ASSIGN(void* const memory, allocate(bytes));
  std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0});
  return std::shared_ptr<void>(memory, [](void* all) { deallocate(all); });
}

// Calls back to back for what is so short that the barrier before it would count; `weft perf` does the same.
int batch_of(const TuneRow& row) {
  if (row.bytes > kBatchedBytes || row.us <= 0) return 1;
  return std::clamp(static_cast<int>(kBatchUs / row.us), 1, kMostBatch);
}

}  // namespace

std::string TuneRow::name() const {
  switch (what) {
    case What::allreduce:
      return "allreduce";
    case What::neighbor_allreduce:
      return "neighbor_allreduce";
    case What::allgather:
      return "allgather";
    case What::named:
      return "named";
  }
  return {};
}

Bench::Bench(const Config& config, std::shared_ptr<Store> store, double seconds)
    : config_(config), store_(std::move(store)), seconds_(seconds), begin_ns_(now_ns()) {}

Result<std::unique_ptr<Bench>> Bench::open(const Config& config, std::shared_ptr<Store> store,
                                           double seconds, std::size_t most_bytes) {
  std::unique_ptr<Bench> bench(new Bench(config, std::move(store), seconds));
  WEFT_ASSIGN(bench->control_, Context::create(config, bench->store_));
  const auto ranks = static_cast<std::size_t>(bench->size());
  const std::size_t bytes = std::max<std::size_t>(most_bytes, std::size_t{1} << 20);
  WEFT_ASSIGN(bench->x_, memory_of(bytes));
  WEFT_ASSIGN(bench->y_, memory_of(bytes * ranks));
  return bench;
}

Result<Stand> Bench::stand(const Settings& settings, std::string& why) {
  Config config = config_;
  for (const auto& [name, value] : settings) WEFT_RETURN_IF_ERROR(config.set(name, value));
  Stand stand;
  Result<std::unique_ptr<Context>> context = Context::create(config, store_);
  Status status = context.status();
  if (context.ok()) status = (*context)->set_graph(*exponential_graph((*context)->size()), true);
  if (!status.ok()) why = status.text();
  WEFT_ASSIGN(const double failed, worst(status.ok() ? 0 : 1));
  if (failed == 0) stand.context = *std::move(context);
  return stand;
}

Result<double> Bench::worst(double mine) {
  std::vector<double> numbers{mine};
  WEFT_RETURN_IF_ERROR(agree(numbers));
  return numbers.front();
}

// The maximum of all ranks, in place.
Status Bench::agree(std::vector<double>& numbers) {
  std::vector<double> mine = numbers;
  mine.push_back(is_told_to_stop() ? 1 : 0);
  mine.push_back(leads() ? static_cast<double>(now_ns() - begin_ns_) / 1e9 : 0);
  std::vector<double> all(mine.size());
  WEFT_RETURN_IF_ERROR(control_->allreduce(in(mine.data(), mine.size()),
                                           out(all.data(), all.size()), ReduceOp::max));
  spent_s_ = all.back();
  is_stopped_ = all[all.size() - 2] != 0;
  std::copy_n(all.begin(), numbers.size(), numbers.begin());
  return {};
}

Status Bench::call_by_name(Stand& stand, const TuneRow& row) {
  if (!stand.named) {
    NamedOptions options;
    options.fusion_bytes = stand.fusion_bytes;
    WEFT_ASSIGN(stand.named, stand.context->named(options));
  }
  std::vector<Handle> handles;
  const std::size_t count = row.bytes / sizeof(float);
  for (std::size_t tensor = 0; tensor < kNamedTensors; ++tensor) {
    float* const x = static_cast<float*>(x_.get()) + tensor * count;
    float* const y = static_cast<float*>(y_.get()) + tensor * count;
    WEFT_ASSIGN(Handle handle,
                stand.named->allreduce_start(fmt::format("tensor {}", tensor), in(x, count),
                                             out(y, count), ReduceOp::sum));
    handles.push_back(std::move(handle));
  }
  for (Handle& handle : handles) WEFT_RETURN_IF_ERROR(handle.wait());
  return {};
}

Status Bench::call(Stand& stand, const TuneRow& row) {
  const std::size_t count = row.bytes / sizeof(float);
  const Input x = in(static_cast<const float*>(x_.get()), count);
  auto* const y = static_cast<float*>(y_.get());
  switch (row.what) {
    case TuneRow::What::allreduce:
      return stand.context->allreduce(x, out(y, count), ReduceOp::sum, stand.algorithm);
    case TuneRow::What::neighbor_allreduce:
      return stand.context->neighbor_allreduce(x, out(y, count));
    case TuneRow::What::allgather:
      return stand.context->allgather(x, out(y, count * static_cast<std::size_t>(size())));
    case TuneRow::What::named:
      return call_by_name(stand, row);
  }
  return {};
}

Result<std::vector<double>> Bench::laps(Stand& stand, const TuneRow& row, int laps, int batch) {
  std::vector<double> times;
  for (int lap = 0; lap < laps; ++lap) {
    // As a program does, so that others do not find the input in a shared cache.
    if (batch == 1) std::fill_n(static_cast<float*>(x_.get()), row.bytes / sizeof(float), 1.0F);
    WEFT_RETURN_IF_ERROR(control_->barrier());
    const std::int64_t begin = now_ns();
    for (int again = 0; again < batch; ++again) WEFT_RETURN_IF_ERROR(call(stand, row));
    times.push_back(static_cast<double>(now_ns() - begin) / 1e3 / batch);
  }
  WEFT_RETURN_IF_ERROR(agree(times));
  return times;
}

Result<double> Bench::time_once(Stand& stand, const TuneRow& row) {
  WEFT_ASSIGN(const std::vector<double> times, laps(stand, row, 3, 1));
  return std::min(times[1], times[2]);
}

Result<Pairing> Bench::pair(Stand& usual, Stand& other, const TuneRow& row, double seconds,
                            int least, double give_up) {
  const int batch = batch_of(row);
  const double begin = spent_s_;
  // Connections, plans, and the buffers of all channels.
  const int warm_up = row.us < kSlowUs ? kWarmUpLaps : 2;
  WEFT_RETURN_IF_ERROR(laps(usual, row, warm_up, 1).status());
  WEFT_ASSIGN(const std::vector<double> first, laps(other, row, warm_up, 1));
  const double lap_s = std::max(row.us, first.back()) / 1e6 * batch;
  const double trial_s = std::min(seconds / kUsualRounds / 2, kMostTrialS);
  const int count = std::clamp(static_cast<int>(trial_s / std::max(lap_s, 1e-6)), 1, kMostLaps);
  std::vector<double> ratios, usual_us, us;
  Pairing pairing;
  while (pairing.rounds < least || (pairing.rounds < kMostRounds && spent_s_ - begin < seconds)) {
    if (is_stopped_ && pairing.rounds > 0) break;
    const bool is_turned = pairing.rounds % 2 == 1;
    WEFT_ASSIGN(std::vector<double> a, laps(is_turned ? other : usual, row, count, batch));
    WEFT_ASSIGN(std::vector<double> b, laps(is_turned ? usual : other, row, count, batch));
    if (is_turned) std::swap(a, b);
    usual_us.push_back(median(std::move(a)));
    us.push_back(median(std::move(b)));
    ratios.push_back(usual_us.back() / std::max(us.back(), 1e-3));
    ++pairing.rounds;
    if (pairing.rounds == 2 && std::max(ratios[0], ratios[1]) < give_up) break;
  }
  pairing.usual_us = median(std::move(usual_us));
  pairing.us = median(std::move(us));
  pairing.times = median(std::move(ratios));
  return pairing;
}

}  // namespace weft
