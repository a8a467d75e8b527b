// combine() against the reference, bit by bit: every type, reduction and instruction set; few and
// many terms; every length of tail; destinations at odd addresses, in place of a term, and guarded.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "engine/kernels/kernels.h"
#include "tests/base/sanitized.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/targets.h"

namespace weft {
namespace {

using reference::Bytes;

constexpr std::size_t kMost = searched<std::size_t>(4099, 1099);
constexpr std::size_t kGuard = 64;
constexpr std::uint8_t kGuardByte = 0xA5;

std::vector<std::size_t> counts() {
  std::vector<std::size_t> counts{0, 1, 2, 3, 7};
  const std::size_t step = kIsSanitized ? 3 : 1;  // which still meets every tail
  for (std::size_t i = 15; i <= 65; i += step) counts.push_back(i);
  counts.insert(counts.end(), {127, 200, 1000, kMost});
  return counts;
}

// Elements at a chosen distance from an aligned address, with guard bytes on both sides.
class Placed {
 public:
  Placed(const std::uint8_t* elements, std::size_t bytes, std::size_t offset)
      : memory_(2 * kGuard + offset + bytes + kGuard, kGuardByte), bytes_(bytes) {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(memory_.data()) % kGuard;
    start_ = 2 * kGuard - past + offset;
    std::copy_n(elements, bytes, data());
  }
  std::uint8_t* data() { return memory_.data() + start_; }
  bool guards_untouched() const {
    const auto is_guard = [](std::uint8_t byte) { return byte == kGuardByte; };
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(start_);
    return std::all_of(memory_.begin(), begin, is_guard) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), is_guard);
  }

 private:
  Bytes memory_;
  std::size_t start_;
  std::size_t bytes_;
};

// Where the result goes: memory of its own, or the place of term 0, of a middle one, or of term 0
// when that is the last term as well.
enum class Place { own, first, middle, first_twice };

struct Problem {
  DataType type;
  Reduction reduction;
  Place place;
  std::vector<Bytes> inputs;
  std::vector<double> weights;
  double divisor;
  Bytes expected;
};

Problem make_problem(DataType type, Reduction reduction, std::size_t k, Place place,
                     double divisor) {
  std::mt19937_64 random(k * 1000 + static_cast<std::size_t>(type));
  std::uniform_real_distribution<double> weight(-1.0, 1.0);
  Problem problem{type, reduction, place, {}, {}, divisor, {}};
  for (std::size_t t = 0; t < k; ++t) {
    problem.inputs.push_back(reference::random_elements(type, kMost, random));
    problem.weights.push_back(weight(random));
  }
  if (place == Place::first_twice) problem.inputs[k - 1] = problem.inputs[0];
  problem.expected = reference::combine(type, reduction, problem.inputs, problem.weights, divisor);
  return problem;
}

// `terms` are the problem's inputs somewhere in memory; the one that the place asks for is replaced
// by the destination.
void check(const Problem& problem, std::vector<Term> terms, std::size_t count, std::size_t offset,
           StoreKind store) {
  const std::size_t k = terms.size();
  const std::size_t bytes = count * size_of(problem.type);
  const std::size_t replaced = problem.place == Place::middle ? k / 2 : 0;
  Placed destination(problem.inputs[replaced].data(), bytes, offset);
  if (problem.place != Place::own) terms[replaced].data = destination.data();
  if (problem.place == Place::first_twice) terms[k - 1].data = destination.data();

  combine(problem.type, problem.reduction, terms, destination.data(), count, store,
          problem.divisor);

  ASSERT_TRUE(std::equal(destination.data(), destination.data() + bytes, problem.expected.begin()))
      << count << " elements at offset " << offset << ", store " << static_cast<int>(store);
  ASSERT_TRUE(destination.guards_untouched()) << count << " elements at offset " << offset;
}

void check_all_counts(const Problem& problem, std::size_t offset) {
  std::vector<Placed> placed;
  std::vector<Term> terms;
  for (std::size_t t = 0; t < problem.inputs.size(); ++t) {
    const Bytes& input = problem.inputs[t];
    placed.emplace_back(input.data(), input.size(), offset * (t + 1) % 32);
    terms.push_back({placed.back().data(), problem.weights[t]});
  }
  for (const std::size_t count : counts()) {
    check(problem, terms, count, offset, StoreKind::cached);
    check(problem, terms, count, offset, StoreKind::streaming);
    if (testing::Test::HasFatalFailure()) return;
  }
}

using Pair = std::tuple<DataType, Reduction>;

std::vector<Pair> allowed_pairs() {
  std::vector<Pair> pairs;
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    for (std::size_t r = 0; r < kReductions; ++r) {
      const Pair pair(static_cast<DataType>(t), static_cast<Reduction>(r));
      if (check_reduction(std::get<0>(pair), std::get<1>(pair)).ok()) pairs.push_back(pair);
    }
  }
  return pairs;
}

class Combine : public testing::TestWithParam<Pair> {};

// Only weighted sums are divided.
TEST_P(Combine, GivesTheReferenceBits) {
  const auto [type, reduction] = GetParam();
  for (const std::size_t k : {1, 2, 3, 5, 8, 17}) {
    if (kIsSanitized && (k == 2 || k == 5 || k == 8)) continue;  // the same code as the others
    for (const Place place : {Place::own, Place::first, Place::middle, Place::first_twice}) {
      SCOPED_TRACE(std::to_string(k) + " terms, place " + std::to_string(static_cast<int>(place)));
      const double divisor = k == 3 || k == 5 ? 0.75 : 1.0;
      const Problem problem = make_problem(type, reduction, k, place, divisor);
      for_each_instruction_set([&] {
        for (const std::size_t offset : {0, 1, 8}) {
          if (kIsSanitized && offset == 8) continue;
          check_all_counts(problem, offset);
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Combine, testing::ValuesIn(allowed_pairs()), [](const auto& pair) {
  return std::string(name(std::get<0>(pair.param))) + "_" +
         std::string(name(std::get<1>(pair.param)));
});

}  // namespace
}  // namespace weft
