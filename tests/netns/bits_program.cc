// A rank for tests of fixed bits between hosts: joins by its environment, and compares the bits of every sum with those of
// the sum in rank order, which it computes alone.
//
//   WEFT_BITS=fixed tools/netns -n 2 -p 2 --each bits_program REPEAT BYTES…
//
// Runs allreduce (sum and average), reduce to the last rank and reduce_scatter of floats, REPEAT times for each size. The numbers are of
// very different sizes, so that another order gives other bits. Rank 0 prints a line for each size.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/context/context.h"
#include "engine/digest/digest.h"
#include "engine/kernels/kernels.h"

namespace weft {
namespace {

float given(Rank rank, std::size_t i, int round) {
  std::uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15 +
                       static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9 +
                       static_cast<std::uint64_t>(round) * 0x94d049bb133111eb;
  bits ^= bits >> 31;
  bits *= 0xd6e8feb86659fd93;
  bits ^= bits >> 32;
  const auto fraction = static_cast<float>(bits & 0xFFFFFF) / 0x1p24F - 0.5F;
  return fraction * static_cast<float>(1U << (bits >> 24 & 15));
}

void fill(std::vector<float>& x, Rank rank, int round) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = given(rank, i, round);
}

class Sums {
 public:
  Sums(Context& context, std::size_t count)
      : context_(context),
        x_(count),
        y_(count),
        expected_(count),
        inputs_(static_cast<std::size_t>(context.size())) {
    for (std::vector<float>& input : inputs_) input.resize(count);
  }

  Status round(int number) {
    fill(x_, context_.rank(), number);
    for (Rank rank = 0; rank < context_.size(); ++rank)
      fill(inputs_[static_cast<std::size_t>(rank)], rank, number);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      expect(op);
      WEFT_RETURN_IF_ERROR(
          context_.allreduce(in(x_.data(), x_.size()), out(y_.data(), y_.size()), op));
      WEFT_RETURN_IF_ERROR(compare("allreduce", op, y_.data(), 0, y_.size()));
      const Rank root = context_.size() - 1;
      WEFT_RETURN_IF_ERROR(
          context_.reduce(in(x_.data(), x_.size()), out(y_.data(), y_.size()), root, op));
      if (context_.rank() == root)
        WEFT_RETURN_IF_ERROR(compare("reduce", op, y_.data(), 0, y_.size()));
      const Range own = block_range(x_.size(), 1, static_cast<std::uint32_t>(context_.size()),
                                    static_cast<std::uint32_t>(context_.rank()));
      WEFT_RETURN_IF_ERROR(context_.run({.collective = Collective::reduce_scatter,
                                         .input = in(x_.data(), x_.size()),
                                         .output = out(y_.data(), own.count),
                                         .op = op}));
      WEFT_RETURN_IF_ERROR(compare("reduce_scatter", op, y_.data(), own.offset, own.count));
    }
    return {};
  }
  // Of the last sums.
  [[nodiscard]] std::uint32_t digest() const {
    return crc32c(expected_.data(), expected_.size() * sizeof(float));
  }

 private:
  void expect(ReduceOp op) {
    const bool is_average = op == ReduceOp::average;
    const Mean mean = is_average ? mean_of(inputs_.size()) : Mean();
    std::vector<Term> terms;
    for (const std::vector<float>& input : inputs_) terms.push_back({input.data(), mean.weight});
    combine(DataType::f32, is_average ? Reduction::weighted_sum : Reduction::sum, terms,
            expected_.data(), expected_.size(), StoreKind::cached, mean.divisor);
  }
  Status compare(const char* what, ReduceOp op, const float* got, std::size_t offset,
                 std::size_t count) const {
    if (count == 0 || std::memcmp(got, expected_.data() + offset, count * sizeof(float)) == 0)
      return {};
    return {Code::corrupted,
            std::string(what) + " (" + std::string(name(op)) + ") of " + std::to_string(x_.size()) +
                " floats: the bits are not those of the sum in rank order\n" + context_.explain()};
  }

  Context& context_;
  std::vector<float> x_, y_, expected_;
  std::vector<std::vector<float>> inputs_;
};

Status run(int repeat, const std::vector<std::size_t>& sizes) {
  WEFT_ASSIGN(Config config, Config::from_environment());
  WEFT_ASSIGN(const std::shared_ptr<Store> store, open_store(config));
  {
    WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
    for (const std::size_t bytes : sizes) {
      Sums sums(*context, (bytes + sizeof(float) - 1) / sizeof(float));
      for (int round = 0; round < repeat; ++round) WEFT_RETURN_IF_ERROR(sums.round(round));
      if (context->rank() == 0) {
        std::printf("%zu bytes: %d times the bits of the sum in rank order, CRC-32C %08x\n", bytes,
                    repeat, sums.digest());
        std::fflush(stdout);
      }
    }
  }
  return store->goodbye(Deadline::after_ms(config.deadline_ms));
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bits_program REPEAT BYTES…\n");
    return 2;
  }
  std::vector<std::size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  const weft::Status status = weft::run(std::atoi(argv[1]), sizes);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
