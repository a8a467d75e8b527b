// The cost of graphs: building them, a rank's view of a step (once per training step), mixing
// figures.
#include <benchmark/benchmark.h>
#include <weft/graph.h>

namespace weft {
namespace {

void build(benchmark::State& state, const char* spec) {
  const int n = static_cast<int>(state.range(0));
  std::int64_t edges = 0;
  for (auto _ : state) edges += make_graph(spec, n).value().edge_count();
  state.SetItemsProcessed(edges);
}
BENCHMARK_CAPTURE(build, exponential, "exponential")->RangeMultiplier(16)->Range(4, 16'384);
BENCHMARK_CAPTURE(build, grid, "grid")->RangeMultiplier(16)->Range(4, 16'384);
BENCHMARK_CAPTURE(build, fully_connected, "fully_connected")->Arg(64)->Arg(1024);
BENCHMARK_CAPTURE(build, random_regular, "random_regular:d=4")->Arg(64)->Arg(16'384);

void view(benchmark::State& state, const char* spec) {
  const Schedule schedule = make_schedule(spec, static_cast<int>(state.range(0))).value();
  std::uint64_t step = 0;
  for (auto _ : state) benchmark::DoNotOptimize(schedule.local_view(step++, 1));
}
BENCHMARK_CAPTURE(view, one_peer_exponential, "one_peer_exponential")->Arg(16)->Arg(16'384);
BENCHMARK_CAPTURE(view, one_peer_on_graph, "one_peer:exponential")->Arg(16)->Arg(16'384);
BENCHMARK_CAPTURE(view, inner_outer, "inner_outer_exponential:local=8")->Arg(16)->Arg(16'384);

void mix(benchmark::State& state, const char* spec) {
  const Graph graph = make_graph(spec, static_cast<int>(state.range(0))).value();
  for (auto _ : state) benchmark::DoNotOptimize(sigma2(graph));
}
BENCHMARK_CAPTURE(mix, exponential, "exponential")
    ->Arg(64)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mix, ring, "ring")->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft
