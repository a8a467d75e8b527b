// CRC-32C of a tensor by size: bytes_per_second of one core. "read" sums the words of the same tensor, which
// is what reading it takes; "portable" is without the processor's instruction.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "engine/digest/digest.h"

namespace weft {
namespace {

template <class Use>
void run(benchmark::State& state, Use use) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::uint64_t> words(bytes / sizeof(std::uint64_t), 0x9e3779b97f4a7c15);
  for (auto _ : state) benchmark::DoNotOptimize(use(words, bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void crc(benchmark::State& state) {
  run(state, [](const auto& words, std::size_t bytes) { return crc32c(words.data(), bytes); });
}
void portable(benchmark::State& state) {
  run(state,
      [](const auto& words, std::size_t bytes) { return crc32c_portable(words.data(), bytes); });
}
void read(benchmark::State& state) {
  run(state, [](const auto& words, std::size_t) {
    std::uint64_t sum = 0;
    for (const std::uint64_t word : words) sum += word;
    return sum;
  });
}

BENCHMARK(crc)->RangeMultiplier(16)->Range(64, 64 << 20);
BENCHMARK(portable)->RangeMultiplier(16)->Range(64, 1 << 20);
BENCHMARK(read)->RangeMultiplier(16)->Range(64, 64 << 20);

}  // namespace
}  // namespace weft
