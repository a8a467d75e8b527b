// Encoding and decoding by compression and size. bytes_per_second counts the bytes of the f32 tensor.
// "copy" is memcpy of the tensor, counted the same way. share: encoded bytes by those. error: the root mean square
// of what is lost, by that of the values.
#include <benchmark/benchmark.h>

#include <cmath>
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

// The root mean square of what is lost, by that of the values.
double error_of(const Encoding& how, const std::vector<float>& values) {
  std::vector<std::byte> bytes(encoded_bytes(how, values.size()));
  Encoder().encode(how, values, bytes);
  std::vector<float> back(values.size());
  Encoded::open(bytes, how, values.size())->decode(back);
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    lost += std::pow(double{back[i]} - values[i], 2);
    all += std::pow(double{values[i]}, 2);
  }
  return std::sqrt(lost / all);
}

// A square matrix as the gradient of a layer is: the sum of 32 outer products, of which each has 0.8 of the
// size of the one before.
std::vector<float> gradient_of_layer(std::size_t rows) {
  std::mt19937 random(7);
  std::normal_distribution law(0.0F, 1e-3F);
  std::vector<float> values(rows * rows), left(rows), right(rows);
  float size = 1;
  for (int term = 0; term < 32; ++term, size *= 0.8F) {
    for (std::size_t i = 0; i < rows; ++i) {
      left[i] = size * law(random);
      right[i] = law(random);
    }
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += left[i / rows] * right[i % rows];
  }
  return values;
}

// What an encoding is measured with: values, and how.
struct Subject {
  Encoding how;
  std::vector<float> values;
};
Subject subject(Compression how, std::uint32_t rank, std::int64_t bytes) {
  if (rank == 0) return {how, gradient(static_cast<std::size_t>(bytes))};
  const auto rows =
      static_cast<std::size_t>(std::sqrt(bytes / static_cast<std::int64_t>(sizeof(float))));
  return {{how, {.rows = rows, .rank = rank}}, gradient_of_layer(rows)};
}

// `rank` 0: no matrix.
void run_encode(benchmark::State& state, Compression compression, std::uint32_t rank) {
  const auto [how, values] = subject(compression, rank, state.range(0));
  std::vector<std::byte> bytes(encoded_bytes(how, values.size()));
  Encoder encoder;
  for (auto _ : state) {
    encoder.encode(how, values, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.counters["share"] = static_cast<double>(bytes.size()) / static_cast<double>(state.range(0));
  state.counters["error"] = error_of(how, values);
}

void run_decode(benchmark::State& state, Compression compression, std::uint32_t rank, bool adds) {
  auto [how, values] = subject(compression, rank, state.range(0));
  std::vector<std::byte> bytes(encoded_bytes(how, values.size()));
  Encoder().encode(how, values, bytes);
  const Result<Encoded> encoded = Encoded::open(bytes, how, values.size());
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
  const auto all = [&](const std::string& its, Compression how, std::uint32_t rank) {
    sizes(benchmark::RegisterBenchmark(("encode/" + its).c_str(), run_encode, how, rank));
    sizes(benchmark::RegisterBenchmark(("decode/" + its).c_str(), run_decode, how, rank, false));
    sizes(benchmark::RegisterBenchmark(("add/" + its).c_str(), run_decode, how, rank, true));
  };
  for (const Compression compression : {Compression::f16, Compression::bf16, Compression::sketch,
                                        Compression::e4m3, Compression::e5m2})
    all(std::string(name(compression)), compression, 0);
  for (const std::uint32_t rank : {4U, 16U})
    all("low_rank:" + std::to_string(rank), Compression::low_rank, rank);
  all("matrix/sketch", Compression::sketch, 1);  // of the same matrix
  return true;
}
[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace weft
