// combine() by type, number of terms, size and store. bytes_per_second counts each input byte read
// and each output byte written once. "copy" is memcpy over the same memory, counted the same way:
// the limit to compare with. Run with --benchmark_repetitions=5 for median and spread.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/kernels/kernels.h"

namespace weft {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;

// k inputs and an output of `bytes` each, touched, in huge pages: as the memory of a good
// allocator, and so that the luck of the page tables does not show as noise.
class Arrays {
 public:
  Arrays(std::size_t k, std::size_t bytes)
      : stride_(round_up(bytes, kPage) + kPage + kSkew),
        memory_(static_cast<char*>(allocate(round_up((k + 1) * stride_, kHugePage)))) {
    for (std::size_t t = 0; t < k; ++t) {
      terms_.push_back({memory_.get() + (t + 1) * stride_, 1.0 / static_cast<double>(k)});
    }
  }
  std::span<const Term> terms() const { return terms_; }
  void* output() { return memory_.get(); }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kHugePage = 2 << 20;
  // Some lines more than whole pages, so that the arrays do not compete for the same sets of a
  // cache.
  static constexpr std::size_t kSkew = 512;

  static std::size_t round_up(std::size_t bytes, std::size_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }
  static void* allocate(std::size_t bytes) {
    void* memory = std::aligned_alloc(kHugePage, bytes);
    invariant(memory != nullptr, "a benchmark needs its memory");
    (void)madvise(memory, bytes,
                  MADV_HUGEPAGE);  // refused where the kernel has none: slower, not wrong
    return std::memset(memory, 0, bytes);
  }

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  std::size_t stride_;
  std::unique_ptr<char[], Free> memory_;
  std::vector<Term> terms_;
};

void run_combine(benchmark::State& state, DataType type, Reduction reduction, StoreKind store) {
  const auto k = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  Arrays arrays(k, bytes);
  const CombineFunction function = select_combine(type, reduction);
  for (auto _ : state) {
    function(arrays.terms(), arrays.output(), bytes / size_of(type), store, 1.0);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>((k + 1) * bytes));
}

void run_copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Arrays arrays(1, bytes);
  for (auto _ : state) {
    std::memcpy(arrays.output(), arrays.terms()[0].data, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(2 * bytes));
}

const std::vector<std::int64_t> kSizes{4,        256,       16 * kKiB, 256 * kKiB,
                                       2 * kMiB, 16 * kMiB, 64 * kMiB};

void add(DataType type, Reduction reduction, StoreKind store,
         const std::vector<std::int64_t>& terms, const std::vector<std::int64_t>& sizes) {
  const std::string title = std::string(name(reduction)) + "/" + std::string(name(type)) +
                            (store == StoreKind::streaming ? "/streaming" : "/cached");
  auto* benchmark = benchmark::RegisterBenchmark(
      title.c_str(), [=](benchmark::State& state) { run_combine(state, type, reduction, store); });
  benchmark->ArgNames({"k", "bytes"})->ArgsProduct({terms, sizes});
}

// The main type and its neighbors in full; every other pair at one size, to notice what falls
// behind.
const bool kRegistered = [] {
  auto* copy = benchmark::RegisterBenchmark("copy", run_copy)->ArgName("bytes");
  for (const std::int64_t size : kSizes) copy->Arg(size);
  for (const StoreKind store : {StoreKind::cached, StoreKind::streaming}) {
    add(DataType::f32, Reduction::weighted_sum, store, {1, 2, 3, 4, 5, 8, 17, 64}, kSizes);
    for (const DataType type :
         {DataType::f16, DataType::bf16, DataType::f64, DataType::e4m3, DataType::e5m2}) {
      add(type, Reduction::weighted_sum, store, {2, 3, 8}, kSizes);
    }
  }
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    for (std::size_t r = 1; r < kReductions; ++r) {
      const auto type = static_cast<DataType>(t);
      const auto reduction = static_cast<Reduction>(r);
      if (!check_reduction(type, reduction).ok()) continue;
      add(type, reduction, StoreKind::cached, {2}, {256 * kKiB});
    }
  }
  return true;
}();

}  // namespace
}  // namespace weft
