// Sets of fused tensors: whatever their sizes, and wherever they are, each gets the bits of the
// ordered operation on it alone.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "engine/named/fused_set.h"
#include "tests/base/sanitized.h"
#include "tests/window/window_job.h"

namespace weft {
namespace {

// Where a tensor is. A set has all of them.
enum class Place : std::uint8_t { heap, heap_in_place, own, own_in_place };
constexpr std::size_t kPlaces = 4;

// Elements of the tensors: alone in a line, about a run's least size, cut by blocks of ranks.
constexpr std::size_t kCounts[] = {1,    0,    3,      511,    512,    513,    1024,
                                   1025, 4096, 16'383, 16'384, 40'000, 70'001, 300'000};

// A tensor that begins so many bytes behind the beginning of its memory.
struct Tensor {
  Tensor(std::size_t count, DataType type, Place place, std::size_t skip)
      : count(count),
        type(type),
        x(bytes() + skip, is_private(place)),
        y(bytes() + skip, is_private(place)),
        from(x.data() + skip),
        to(is_in_place(place) ? from : y.data() + skip) {}
  static bool is_private(Place place) {
    return place == Place::own || place == Place::own_in_place;
  }
  static bool is_in_place(Place place) {
    return place == Place::heap_in_place || place == Place::own_in_place;
  }
  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
  // Sums of the floats depend on their order.
  void fill(std::mt19937_64& random) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (type == DataType::f32) {
        const auto value = static_cast<float>(std::uniform_real_distribution<>(-1, 1)(random));
        std::memcpy(from + i * sizeof value, &value, sizeof value);
      } else {
        const auto value = static_cast<std::uint64_t>(random() % 50);
        std::memcpy(from + i * size_of(type), &value, size_of(type));
      }
    }
  }
  [[nodiscard]] Request request(const void* input, void* output) const {
    return {.collective = Collective::allreduce,
            .input = {input, count, type},
            .output = {output, count, type},
            .op = ReduceOp::sum,
            .algorithm = AllreduceAlgorithm::split};
  }

  std::size_t count;
  DataType type;
  Array<std::byte> x, y;
  std::byte *from, *to;
};

class FusedSets : public OverBoth {};
INSTANTIATE_TEST_SUITE_P(Ways, FusedSets, kBothWays, name_of);

// `places`: of the set's tensors, in turn.
void check_sets(Context& context, DataType type, std::span<const Place> places) {
  Result<Named> named =
      context.named({.fusion_bytes = 4 << 20, .fused_tensor_bytes = 1 << 20, .gather_us = 2000});
  ASSERT_TRUE(named.ok()) << named.status().to_string();
  std::mt19937_64 random(static_cast<std::uint64_t>(context.rank()) + 1);
  std::vector<std::unique_ptr<Tensor>> tensors;
  std::vector<std::vector<std::byte>> expected;
  std::vector<Request> requests;
  for (std::size_t t = 0; t < 2 * std::size(kCounts); ++t) {
    const std::size_t skip = t % 3 * size_of(type) * (t % 2 == 0 ? 1 : 16);
    const Place place = places[(t * 5 + t / 7) % places.size()];
    Tensor& tensor = *tensors.emplace_back(
        std::make_unique<Tensor>(kCounts[t % std::size(kCounts)], type, place, skip));
    tensor.fill(random);
    requests.push_back(tensor.request(tensor.from, tensor.to));
    expect_ok(
        context.run(tensor.request(tensor.from, expected.emplace_back(tensor.bytes() + 1).data())));
  }
  const std::uint64_t before = named->usage()->batches;
  expect_ok(named->start_group("all", requests)->wait());
  EXPECT_LT(named->usage()->batches - before, requests.size() / 2);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    ASSERT_EQ(std::memcmp(tensors[t]->to, expected[t].data(), tensors[t]->bytes()), 0)
        << "tensor " << t << " of " << tensors[t]->count << " " << name(type);
  }
  expect_ok(named->end());
}

TEST_P(FusedSets, HaveTheBitsOfTensorsAlone) {
  run(3, [](Context& context) {
    constexpr Place kAll[] = {Place::heap, Place::heap_in_place, Place::own, Place::own_in_place};
    for (const DataType type : {DataType::f32, DataType::u8, DataType::i64})
      check_sets(context, type, kAll);
  });
}

TEST_P(FusedSets, InPlaceAndInTheHeapAlone) {
  run(4, [](Context& context) {
    constexpr Place kInPlace[] = {Place::heap_in_place};
    constexpr Place kAny[] = {Place::heap, Place::heap};
    constexpr Place kBoth[] = {Place::heap_in_place, Place::own_in_place};
    check_sets(context, DataType::f32, kInPlace);
    check_sets(context, DataType::f32, kAny);
    check_sets(context, DataType::f32, kBoth);
  });
}

// One rank's tensors are in the heap, those of another in private memory.
TEST_P(FusedSets, EachRankHasItsOwnPlaces) {
  run(4, [](Context& context) {
    const Place places[] = {static_cast<Place>(static_cast<std::size_t>(context.rank()) % kPlaces)};
    check_sets(context, DataType::f32, places);
  });
}

// Tensors that lie one behind the other, as slices of one array do, are one run. On the last rank two are the other
// way round.
TEST_P(FusedSets, AreSlicesOfOneArray) {
  run(3, [](Context& context) {
    constexpr std::size_t kSlices = 40, kCount = 1024, kAll = kSlices * kCount;
    Named named = context.named().value();
    for (const bool in_place : {false, true}) {
      Array<float> x(kAll, false), y(kAll, false);
      std::vector<float> expected(kAll);
      for (std::size_t i = 0; i < kAll; ++i) {
        x[i] = static_cast<float>(i + static_cast<std::size_t>(context.rank()));
        expected[i] = static_cast<float>(3 * i + 3);
      }
      std::vector<std::size_t> order(kSlices);
      std::iota(order.begin(), order.end(), 0);
      if (context.rank() == 2) std::swap(order[7], order[8]);
      std::vector<Request> requests;
      for (const std::size_t slice : order) {
        Request& request = requests.emplace_back();
        request.op = ReduceOp::sum;
        request.collective = Collective::allreduce;
        request.input = in(x.data() + slice * kCount, kCount, DataType::f32);
        request.output =
            out((in_place ? x.data() : y.data()) + slice * kCount, kCount, DataType::f32);
      }
      expect_ok(named.start_group("slices", requests)->wait());
      const float* const results = in_place ? x.data() : y.data();
      const std::size_t swapped = 7 * kCount;
      for (std::size_t i = 0; i < kAll; ++i) {
        if (i == swapped) i += 2 * kCount;
        ASSERT_EQ(results[i], expected[i]) << i;
      }
    }
    expect_ok(named.end());
  });
}

// What is large is neither copied to the buffer nor from it. The context makes the heap.
TEST(FusedSet, ReadsTheHeapWhereItIs) {
  run_job(1, [](Context&) {
    Array<std::byte> x(8200, false), y(8200, false), mine(8192, true);
    named::Buffers buffers;
    const named::FusedSet set = named::FusedSet::make(named::FusedSet::Kind::in_place,
                                                      {{0, 8200, x.data(), y.data()},
                                                       {8256, 8192, mine.data(), mine.data()},
                                                       {8256 + 8192, 100, x.data(), y.data()}},
                                                      8256 + 8192 + 128, buffers)
                                    .value();
    const Cursor in = set.input().at(0);
    EXPECT_EQ(in.data(), x.data());
    EXPECT_EQ(in.left(), 8192U);
    EXPECT_EQ(set.output().at(64).data(), y.data() + 64);
    // The tail, the private tensor and the small one are packed one behind the other.
    const Cursor rest = set.input().at(8192);
    EXPECT_EQ(rest.data(), set.input_buffer() + 8192);
    EXPECT_EQ(rest.left(), 64U + 8192 + 128);
    x[8199] = std::byte{7};
    set.pack();
    EXPECT_EQ(set.input_buffer()[8199], std::byte{7});
    EXPECT_EQ(set.input_buffer()[8200], std::byte{0});
    std::memset(set.output_buffer(), 5, 8256 + 8192 + 128);
    set.unpack();
    EXPECT_EQ(y[8191], std::byte{0});  // the operation itself writes it
    EXPECT_EQ(y[8192], std::byte{5});
    EXPECT_EQ(mine[8191], std::byte{5});
    EXPECT_EQ(y[99], std::byte{5});
    EXPECT_EQ(y[100], std::byte{0});
  });
}

}  // namespace
}  // namespace weft
