// What windows cost before anybody puts: how long many of them take to be made and to be freed, and
// whether descriptors and pinned memory are as before afterwards.
//
//   weft run -n 4 -- bench_windows
//
// Rank 0 prints one JSON object. Times are those of the slowest rank, medians over the rounds.
// Counts are sums over the ranks: before the first round, after it (once) and after the last one.
// What the first round leaves and later ones do not add to is kept to be used again.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/context/context.h"

namespace {

using weft::Context;
using weft::Status;

constexpr int kWindows = 100;
constexpr int kRounds = 7;
constexpr std::size_t kCount = 256;  // elements of a window

struct Held {
  double descriptors = 0;
  double pinned_kib = 0;
};

// The kernel counts memory that devices have pinned as VmPin, and mlock's as VmLck.
Held held_now() {
  Held held;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    ++held.descriptors;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmPin:" && word != "VmLck:") continue;
    double kib = 0;
    if (status >> kib) held.pinned_kib += kib;
  }
  return held;
}

struct Took {
  double create_ms = 0;
  double free_ms = 0;
};

double ms_since(std::int64_t begin_ns) {
  return static_cast<double>(weft::now_ns() - begin_ns) / 1e6;
}

weft::Result<Took> one_round(Context& context, float* tensors, int windows) {
  Took took;
  WEFT_RETURN_IF_ERROR(context.barrier());
  std::int64_t begin = weft::now_ns();
  for (int w = 0; w < windows; ++w) {
    float* const tensor = tensors + static_cast<std::size_t>(w) * kCount;
    WEFT_RETURN_IF_ERROR(
        context.win_create(weft::out(tensor, kCount), fmt::format("w{}", w)).status());
  }
  took.create_ms = ms_since(begin);
  WEFT_RETURN_IF_ERROR(context.barrier());
  begin = weft::now_ns();
  WEFT_RETURN_IF_ERROR(context.win_free_all());
  took.free_ms = ms_since(begin);
  return took;
}

// Every rank's number.
weft::Result<std::vector<double>> of_all(Context& context, double own) {
  std::vector<double> all(static_cast<std::size_t>(context.size()));
  WEFT_RETURN_IF_ERROR(context.allgather(weft::in(&own, 1), weft::out(all.data(), all.size())));
  return all;
}

weft::Result<double> slowest(Context& context, double own) {
  WEFT_ASSIGN(const std::vector<double> all, of_all(context, own));
  return *std::ranges::max_element(all);
}

weft::Result<double> sum(Context& context, double own) {
  WEFT_ASSIGN(const std::vector<double> all, of_all(context, own));
  double found = 0;
  for (const double each : all) found += each;
  return found;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Status run(Context& context) {
  WEFT_ASSIGN(const weft::Graph graph, weft::exponential_graph(context.size()));
  WEFT_RETURN_IF_ERROR(context.set_graph(graph));
  WEFT_ASSIGN(const weft::Memory memory, weft::Memory::allocate(kWindows * kCount * sizeof(float)));
  auto* const tensors = memory.as<float>();
  // The first window connects the neighbors, and the first exchange of numbers all ranks.
  WEFT_RETURN_IF_ERROR(one_round(context, tensors, 1).status());
  WEFT_RETURN_IF_ERROR(sum(context, 0).status());
  const Held before = held_now();
  std::vector<double> create_ms;
  std::vector<double> free_ms;
  Held once;
  for (int round = 0; round < kRounds; ++round) {
    WEFT_ASSIGN(const Took took, one_round(context, tensors, kWindows));
    WEFT_ASSIGN(const double slowest_create, slowest(context, took.create_ms));
    WEFT_ASSIGN(const double slowest_free, slowest(context, took.free_ms));
    create_ms.push_back(slowest_create);
    free_ms.push_back(slowest_free);
    if (round == 0) once = held_now();
  }
  const Held after = held_now();
  WEFT_ASSIGN(const double descriptors_before, sum(context, before.descriptors));
  WEFT_ASSIGN(const double descriptors, sum(context, after.descriptors));
  WEFT_ASSIGN(const double pinned_before, sum(context, before.pinned_kib));
  WEFT_ASSIGN(const double pinned_once, sum(context, once.pinned_kib));
  WEFT_ASSIGN(const double pinned, sum(context, after.pinned_kib));
  if (context.rank() != 0) return {};
  fmt::print(
      R"({{"op":"windows","ranks":{},"windows":{},"create_ms":{:.3f},"free_ms":{:.3f},)"
      R"("descriptors_before":{},"descriptors":{},"pinned_kib_before":{},"pinned_kib_once":{},)"
      R"("pinned_kib":{}}})"
      "\n",
      context.size(), kWindows, median(create_ms), median(free_ms), descriptors_before, descriptors,
      pinned_before, pinned_once, pinned);
  return {};
}

}  // namespace

int main() {
  const auto context = Context::from_environment();
  const Status status = context.ok() ? run(**context) : context.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_windows: {}\n", status.to_string());
  return 1;
}
