// Sums in rank order, computed apart from any plan: what fixed bits must be.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "engine/kernels/kernels.h"
#include "tests/context/elements.h"

namespace weft {

inline Config with_fixed_bits(Config config = test_config()) {
  config.bits = Bits::fixed;
  return config;
}

// What a rank gives: numbers of very different sizes, so that another order nearly always gives other bits.
inline void fill_unevenly(Elements& x, std::size_t count, Rank rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const double size = 1 << random() % 12;
    x.put(i, size * (static_cast<double>(random() % 2001) / 1000 - 1));
  }
}

// Their sum or average over these ranks, in that order.
inline std::string sum_in_order(DataType type, std::size_t count, ReduceOp op,
                                const std::vector<Rank>& ranks) {
  std::vector<std::unique_ptr<Elements>> inputs;
  std::vector<Term> terms;
  const bool is_average = op == ReduceOp::average;
  const Mean mean = is_average ? mean_of(ranks.size()) : Mean();
  for (const Rank rank : ranks) {
    inputs.push_back(std::make_unique<Elements>(type, count, true));
    fill_unevenly(*inputs.back(), count, rank);
    terms.push_back({inputs.back()->input().data, mean.weight});
  }
  Elements sum(type, count, true);
  combine(type, is_average ? Reduction::weighted_sum : Reduction::sum, terms, sum.output().data,
          count, StoreKind::cached, mean.divisor);
  return sum.bits();
}

// The same, computed once for all ranks of a test.
inline std::string expected_bits(DataType type, std::size_t count, ReduceOp op,
                                 const std::vector<Rank>& ranks) {
  static std::mutex mutex;
  static std::map<std::tuple<DataType, std::size_t, ReduceOp, std::vector<Rank>>, std::string>
      known;
  const std::lock_guard lock(mutex);
  std::string& bits = known[{type, count, op, ranks}];
  if (bits.empty()) bits = sum_in_order(type, count, op, ranks);
  return bits;
}

inline std::vector<Rank> ranks_below(int size) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

// Every operation that sums, on so many elements.
inline void check_fixed_bits(Context& context, DataType type, std::size_t count, bool is_private,
                             Bits bits = Bits::automatic) {
  SCOPED_TRACE(std::string(name(type)) + " x " + std::to_string(count));
  const std::vector<Rank> all = ranks_below(context.size());
  Elements x(type, count, is_private), y(type, count, is_private);
  fill_unevenly(x, count, context.rank());
  const auto run = [&](Request request) {
    request.input = x.input();
    request.output = y.output();
    request.bits = bits;
    return context.run(request);
  };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
    const std::string expected = expected_bits(type, count, op, all);
    Status status = run({.collective = Collective::allreduce, .op = op});
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(y.bits() == expected) << "allreduce, " << name(op);
    status = run({.collective = Collective::reduce, .op = op, .root = context.size() - 1});
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (context.rank() == context.size() - 1) {
      ASSERT_TRUE(y.bits() == expected) << "reduce, " << name(op);
    }
    const Range own = block_range(count, 1, static_cast<std::uint32_t>(context.size()),
                                  static_cast<std::uint32_t>(context.rank()));
    Elements part(type, own.count, is_private);
    Request scatter{.collective = Collective::reduce_scatter,
                    .input = x.input(),
                    .output = part.output(),
                    .op = op,
                    .bits = bits};
    status = context.run(scatter);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(part.bits() ==
                expected.substr(own.offset * size_of(type), own.count * size_of(type)))
        << "reduce_scatter, " << name(op);
  }
  const std::vector<Rank> group(all.begin() + 1, all.end());
  if (context.rank() == 0 || group.size() < 2) return;
  const std::vector<Rank> given(group.rbegin(), group.rend());  // in whatever order
  const Status status = run({.collective = Collective::group_average, .group = given});
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_TRUE(y.bits() == expected_bits(type, count, ReduceOp::average, group)) << "group_average";
}

}  // namespace weft
