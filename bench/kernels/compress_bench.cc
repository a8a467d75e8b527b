// Encoding and decoding by compression and size. bytes_per_second counts the bytes of the f32 tensor.
// "copy" is memcpy of the tensor, counted the same way.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/compress/compress.h"

namespace weft {
namespace {

std::vector<float> gradient(std::size_t bytes) {
  std::mt19937 random(7);
  std::normal_distribution law(0.0F, 1e-3F);
  std::vector<float> values(bytes / sizeof(float));
  for (float& value : values) value = law(random);
  return values;
}

void run_copy(benchmark::State& state) {
  const std::vector<float> values = gradient(static_cast<std::size_t>(state.range(0)));
  std::vector<float> to(values.size());
  for (auto _ : state) {
    std::memcpy(to.data(), values.data(), values.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void run_encode(benchmark::State& state, Compression compression) {
  const std::vector<float> values = gradient(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> bytes(encoded_bytes(compression, values.size()));
  Encoder encoder;
  for (auto _ : state) {
    encoder.encode(compression, values, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void run_decode(benchmark::State& state, Compression compression, bool adds) {
  std::vector<float> values = gradient(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> bytes(encoded_bytes(compression, values.size()));
  Encoder().encode(compression, values, bytes);
  const Result<Encoded> encoded = Encoded::open(bytes, compression, values.size());
  for (auto _ : state) {
    if (adds) {
      encoded->add(0.5F, values);
    } else {
      encoded->decode(values);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

bool register_all() {
  const auto sizes = [](benchmark::internal::Benchmark* each) {
    each->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20);
  };
  sizes(benchmark::RegisterBenchmark("copy", run_copy));
  for (const Compression compression : {Compression::f16, Compression::bf16, Compression::sketch}) {
    const std::string its(name(compression));
    sizes(benchmark::RegisterBenchmark(("encode/" + its).c_str(), run_encode, compression));
    sizes(benchmark::RegisterBenchmark(("decode/" + its).c_str(), run_decode, compression, false));
    sizes(benchmark::RegisterBenchmark(("add/" + its).c_str(), run_decode, compression, true));
  }
  return true;
}
[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace weft
