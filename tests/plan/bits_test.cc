// Fixed bits: whatever the ranks, bytes and machines, each element of a sum is combined once, from the inputs
// of all ranks in their order.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/base/sanitized.h"
#include "tests/plan/plans.h"

namespace weft {
namespace {

const std::vector<int> kSizes = searched<std::vector<int>>(
    {2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 64, 65, 100}, {2, 3, 5, 8, 13, 65});
constexpr std::size_t kBytes[] = {1, 64, 4096, 64 << 10, 1 << 20, 64 << 20};

// The ranks whose inputs a combine takes, in its order.
std::vector<Rank> sources_of(const Planned& planned, const Step& step) {
  std::vector<Rank> ranks;
  for (std::uint32_t k = 0; k < step.count; ++k) {
    const Operand& operand = planned.plan.operands[step.first + k];
    if (operand.kind == Operand::Kind::message) {
      ranks.push_back(planned.view.in[operand.edge]);
    } else {
      EXPECT_EQ(operand.slice.buffer, Buffer::input);
      ranks.push_back(planned.view.rank);
    }
  }
  return ranks;
}

// In the chain a sum that another machine passes on stands for all ranks before this machine's.
void expect_passed_on(const Planned& planned, const Layout& layout) {
  const int own = layout.machine[static_cast<std::size_t>(planned.view.rank)];
  std::vector<Rank> here;
  for (Rank rank = 0; rank < planned.view.size; ++rank)
    if (layout.machine[static_cast<std::size_t>(rank)] == own) here.push_back(rank);
  for (const Step& step : planned.plan.steps) {
    if (step.kind != Step::Kind::combine || step.combining == Combining::copy) continue;
    std::vector<Rank> sources = sources_of(planned, step);
    if (own > 0) {
      ASSERT_EQ(layout.machine[static_cast<std::size_t>(sources.front())], own - 1);
      sources.erase(sources.begin());
    }
    ASSERT_EQ(sources, here);
    ASSERT_EQ(step.is_whole, own == layout.machines() - 1);
  }
}

void expect_in_rank_order(const Planned& planned, int size, const Layout& layout = {}) {
  if (planned.plan.algorithm == "chain") return expect_passed_on(planned, layout);
  std::vector<Rank> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  for (const Step& step : planned.plan.steps) {
    if (step.kind != Step::Kind::combine || step.combining == Combining::copy) continue;
    EXPECT_TRUE(step.is_whole) << planned.plan.algorithm << " on " << size;
    EXPECT_EQ(sources_of(planned, step), all) << planned.plan.algorithm << " on " << size;
  }
}

std::vector<Layout> layouts_of(int size) {
  std::vector<Layout> layouts{{}};
  if (size % 2 == 0) layouts.push_back(layout_of({size / 2, size / 2}));
  if (size > 2) layouts.push_back(layout_of({1, size - 1}));
  if (size > 4) layouts.push_back(layout_of({2, size - 4, 1, 1}));
  if (size > 3) layouts.push_back(scattered_layout({size - 3, 2, 1}, 7));
  layouts.push_back(layout_of(std::vector<int>(static_cast<std::size_t>(size), 1)));
  layouts.push_back(layouts.back());
  layouts.back().rails = 2;
  return layouts;
}

TEST(FixedBits, OfAnAllreduceOnAnyMachines) {
  for (const int size : kSizes) {
    for (const Layout& layout : layouts_of(size)) {
      for (const std::size_t bytes : kBytes) {
        for (const Shape shape : {kApart, kInPlace}) {
          const Plans plans = plans_of(size, [&](Rank rank) {
            return plan_allreduce(rank, size, bytes, shape, AllreduceAlgorithm::automatic, layout,
                                  Bits::fixed);
          });
          for (const Planned& each : plans) expect_in_rank_order(each, size, layout);
          if (size <= 9 || bytes == kBytes[0])
            expect_verified(plans, {.operation = Collective::allreduce, .shape = shape});
        }
      }
    }
  }
}

TEST(FixedBits, OfReduceWithAnyRoot) {
  for (const int size : kSizes) {
    for (const Rank root : {0, size / 2, size - 1}) {
      for (const std::size_t bytes : kBytes) {
        const Plans plans = plans_of(size, [&](Rank rank) {
          return plan_reduce(rank, size, root, bytes, kApart, Bits::fixed);
        });
        for (const Planned& each : plans) expect_in_rank_order(each, size);
        if (size <= 16) expect_verified(plans, {.operation = Collective::reduce, .root = root});
      }
    }
  }
}

TEST(FixedBits, OfReduceScatterAndGroups) {
  for (const int size : kSizes) {
    for (const std::size_t bytes : kBytes) {
      for (Rank rank = 0; rank < size; ++rank) {
        expect_in_rank_order(plan_reduce_scatter(rank, size, bytes, kApart, Bits::fixed), size);
        expect_in_rank_order(plan_group_average(rank, size, bytes, kApart, Bits::fixed), size);
      }
    }
  }
}

TEST(FixedBits, AreNotPassedOnWhereSumsAreRoundedOnTheWay) {
  const Layout layout = layout_of({4, 4});
  const auto algorithm = [&](bool is_narrow) {
    return plan_allreduce(0, 8, 1 << 20, {.is_narrow = is_narrow}, AllreduceAlgorithm::automatic,
                          layout, Bits::fixed)
        .plan.algorithm;
  };
  EXPECT_EQ(algorithm(false), "chain");
  EXPECT_EQ(algorithm(true), "split");
}

TEST(FixedBits, RefuseAlgorithmsWithAnotherOrder) {
  for (const AllreduceAlgorithm algorithm :
       {AllreduceAlgorithm::automatic, AllreduceAlgorithm::direct, AllreduceAlgorithm::split})
    EXPECT_TRUE(check_bits(algorithm, Bits::fixed).ok());
  for (const AllreduceAlgorithm algorithm :
       {AllreduceAlgorithm::ring, AllreduceAlgorithm::halving_doubling, AllreduceAlgorithm::bcube,
        AllreduceAlgorithm::torus, AllreduceAlgorithm::multi_ring, AllreduceAlgorithm::hierarchical,
        AllreduceAlgorithm::nccl}) {
    const Status status = check_bits(algorithm, Bits::fixed);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.text().find(name(algorithm)), std::string_view::npos);
    EXPECT_TRUE(check_bits(algorithm, Bits::automatic).ok());
  }
}

TEST(FixedBits, TheReasonNamesWhatTheyReplace) {
  const auto reason = [](int size, const Layout& layout) {
    return plan_allreduce(0, size, 1 << 20, kApart, AllreduceAlgorithm::automatic, layout,
                          Bits::fixed)
        .plan.reason;
  };
  EXPECT_EQ(reason(12, layout_of({4, 4, 4})),
            "1048576 bytes on 12 ranks: fixed bits, so sums are made in rank order, in place of "
            "hierarchical; 3 machines of 4 ranks pass the sum on, in 8 pieces");
  EXPECT_EQ(reason(8, {}),
            "1048576 bytes on 8 ranks: n * bytes is above 65536, reading less is best; it sums in "
            "rank order, so fixed bits cost nothing");
}

}  // namespace
}  // namespace weft
