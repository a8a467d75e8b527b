// Operations whose tensors travel in fewer bytes: what arrives, that all ranks have the same, what is refused.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/context/outcomes.h"

namespace weft {
namespace {

constexpr Compression kAll[] = {Compression::f16, Compression::bf16, Compression::sketch,
                                Compression::e4m3, Compression::e5m2};

// The root mean square of what compression may change of values that are drawn between -1 and 1.
double tolerance(Compression compression) {
  switch (compression) {
    case Compression::f16:
      return 3e-4;
    case Compression::bf16:
      return 3e-3;
    case Compression::sketch:
      return 6e-3;
    case Compression::e4m3:
      return 2e-2;
    default:
      return 4e-2;
  }
}

template <typename Want>
testing::AssertionResult is_near(Array<float>& got, double tolerance, const Want& want) {
  double squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) squares += std::pow(got[i] - want(i), 2);
  const double error = got.size() == 0 ? 0 : std::sqrt(squares / static_cast<double>(got.size()));
  if (error <= tolerance) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "an error of " << error << ", not of " << tolerance;
}

// Element i of a rank's tensor, between -1 and 1.
float element(Rank rank, std::size_t i) {
  std::uint64_t bits = (i + 1) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(rank) * 77;
  bits ^= bits >> 31;
  bits *= 0xBF58476D1CE4E5B9ULL;
  return static_cast<float>(bits >> 40) * 0x1p-23F - 1.0F;
}

struct Tensors {
  explicit Tensors(Rank rank, std::size_t count) : x(count, true), y(count, true) {
    for (std::size_t i = 0; i < count; ++i) x[i] = element(rank, i);
  }
  [[nodiscard]] Request request(Collective collective, Compression compression) {
    return {.collective = collective,
            .input = in(x.data(), x.size()),
            .output = out(y.data(), y.size()),
            .compression = compression};
  }

  Array<float> x, y;
};

double sum_of_ranks(int ranks, std::size_t i) {
  double sum = 0;
  for (Rank rank = 0; rank < ranks; ++rank) sum += element(rank, i);
  return sum;
}

// Whether rank 0 has the same bits.
bool is_same_on_all(Context& context, Array<float>& y) {
  Array<float> first(y.size(), true);
  if (context.rank() == 0) std::memcpy(first.data(), y.data(), y.size() * sizeof(float));
  EXPECT_TRUE(context.broadcast(in(first.data(), y.size()), out(first.data(), y.size()), 0).ok());
  return std::memcmp(first.data(), y.data(), y.size() * sizeof(float)) == 0;
}

class CompressedAllreduce : public testing::TestWithParam<int> {};

TEST_P(CompressedAllreduce, SumsAndMeansOfAnyCount) {
  const int ranks = GetParam();
  run_job(ranks, [&](Context& context) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7},
                                    std::size_t{1000}, std::size_t{100'003}}) {
      for (const Compression compression : kAll) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
          Tensors tensors(context.rank(), count);
          Request request = tensors.request(Collective::allreduce, compression);
          request.op = op;
          const Status status = context.run(request);
          ASSERT_TRUE(status.ok()) << status.to_string();
          const double scale = op == ReduceOp::sum ? 1 : 1.0 / ranks;
          EXPECT_TRUE(is_near(tensors.y, scale * ranks * tolerance(compression),
                              [&](std::size_t i) { return scale * sum_of_ranks(ranks, i); }))
              << name(compression) << ", " << count;
          EXPECT_TRUE(count == 0 || is_same_on_all(context, tensors.y)) << name(compression);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CompressedAllreduce, testing::Values(1, 2, 3, 5),
                         testing::PrintToStringParamName());

TEST(Compressed, InPlaceAndInFlightTogether) {
  run_job(3, [](Context& context) {
    constexpr std::size_t kCount = 20'000;
    std::vector<std::unique_ptr<Tensors>> all;
    std::vector<Handle> handles;
    for (int k = 0; k < 6; ++k) {
      all.push_back(std::make_unique<Tensors>(context.rank(), kCount));
      Request request = all.back()->request(
          k % 3 == 0 ? Collective::neighbor_allreduce : Collective::allreduce, kAll[k % 3]);
      request.output.data = all.back()->x.data();
      // The one that it takes, by its name.
      if (k == 4) request.algorithm = AllreduceAlgorithm::split;
      Result<Handle> handle = context.start(request);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(std::move(*handle));
    }
    for (std::size_t k = 0; k < handles.size(); ++k) {
      ASSERT_TRUE(handles[k].wait().ok());
      EXPECT_TRUE(is_near(all[k]->x, tolerance(Compression::sketch), [](std::size_t i) {
        return sum_of_ranks(3, i) / 3;
      })) << k;
    }
  });
}

TEST(Compressed, NeighborsWithTheWeightsOfTheGraphAndOfTheCall) {
  run_job(4, [](Context& context) {
    ASSERT_TRUE(context.set_graph(*ring_graph(4, RingStyle::both)).ok());
    const Rank self = context.rank(), left = (self + 3) % 4, right = (self + 1) % 4;
    for (const Compression compression : kAll) {
      Tensors tensors(self, 5'000);
      Request request = tensors.request(Collective::neighbor_allreduce, compression);
      ASSERT_TRUE(context.run(request).ok());
      EXPECT_TRUE(is_near(tensors.y, tolerance(compression), [&](std::size_t i) {
        return (element(self, i) + element(left, i) + element(right, i)) / 3.0;
      }));

      const NeighborWeight pulled[] = {{left, 0.25}};
      NeighborWeights weights{.self = 0.5, .sources = pulled, .destinations = std::nullopt};
      request.weights = &weights;
      ASSERT_TRUE(context.run(request).ok());
      const auto pull = [&](std::size_t i) {
        return 0.5 * element(self, i) + 0.25 * element(left, i);
      };
      EXPECT_TRUE(is_near(tensors.y, tolerance(compression), pull));

      const NeighborWeight across[] = {{(self + 2) % 4, 0.5}}, to[] = {{(self + 2) % 4, 1.0}};
      weights = {.self = 2.0, .sources = across, .destinations = to};
      ASSERT_TRUE(context.run(request).ok());
      EXPECT_TRUE(is_near(tensors.y, tolerance(compression), [&](std::size_t i) {
        return 2.0 * element(self, i) + 0.5 * element((self + 2) % 4, i);
      }));
    }
  });
}

TEST(Compressed, TheMeanOfEqualNumbersIsThatNumber) {
  run_job(3, [](Context& context) {
    ASSERT_TRUE(context.set_graph(*make_graph("fully_connected", 3)).ok());
    for (const Compression compression : kAll) {
      for (const Collective collective : {Collective::allreduce, Collective::neighbor_allreduce}) {
        Tensors tensors(0, 1'000);
        std::fill_n(tensors.x.data(), 1'000, 0.375F);
        ASSERT_TRUE(context.run(tensors.request(collective, compression)).ok());
        EXPECT_TRUE(holds(tensors.y.data(), 1'000, 0.375F)) << name(compression);
      }
    }
  });
}

TEST(Compressed, RepeatedAndPreparedCallsTakeNoNewMemory) {
  run_job(2, [](Context& context) {
    Tensors tensors(context.rank(), 50'000);
    Result<Prepared> prepared =
        context.prepare(tensors.request(Collective::allreduce, Compression::sketch));
    ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
    std::size_t before = 0;
    for (int k = 0; k < 40; ++k) {
      ASSERT_TRUE(prepared->run().ok());
      ASSERT_TRUE(
          context.run(tensors.request(Collective::neighbor_allreduce, Compression::f16)).ok());
      ASSERT_TRUE(context.barrier().ok());
      if (k == 20) before = heap_usage().allocated_bytes;
    }
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_LE(heap_usage().allocated_bytes, before);
  });
}

// Many steps of the same tensors: without feedback each step loses the same.
TEST(Compressed, WithFeedbackTheSumOfManyStepsFollowsTheTruth) {
  constexpr std::size_t kCount = 4'000;
  constexpr int kSteps = 40;
  for (const int ranks : {2, 3}) {
    run_job(ranks, [ranks](Context& context) {
      ASSERT_TRUE(context.set_graph(*fully_connected_graph(ranks)).ok());
      Result<Named> named = context.named();
      ASSERT_TRUE(named.ok());
      for (const Compression compression :
           {Compression::bf16, Compression::sketch, Compression::e4m3}) {
        for (const Collective collective :
             {Collective::allreduce, Collective::neighbor_allreduce}) {
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
            if (collective == Collective::neighbor_allreduce && op == ReduceOp::sum) continue;
            const double scale = op == ReduceOp::sum ? 1.0 : 1.0 / ranks;
            const auto error_of = [&](auto&& run_once) {
              Tensors tensors(context.rank(), kCount);
              Request request = tensors.request(collective, compression);
              request.op = op;
              std::vector<double> sum(kCount);
              for (int step = 0; step < kSteps; ++step) {
                const Status status = run_once(request);
                EXPECT_TRUE(status.ok()) << status.to_string();
                for (std::size_t i = 0; i < kCount; ++i) sum[i] += tensors.y[i];
              }
              double squares = 0;
              for (std::size_t i = 0; i < kCount; ++i)
                squares += std::pow(sum[i] - kSteps * scale * sum_of_ranks(ranks, i), 2);
              return std::sqrt(squares / kCount);
            };
            const double plain =
                error_of([&](const Request& request) { return context.run(request); });
            ErrorFeedback feedback, by_name;
            const auto with = [&](Request request, const ErrorFeedback& its) {
              request.feedback = &its;
              return request;
            };
            EXPECT_LT(error_of([&](const Request& request) {
                        return context.run(with(request, feedback));
                      }),
                      plain / 5)
                << name(compression) << ", " << name(collective) << ", " << name(op);
            EXPECT_LT(error_of([&](const Request& request) {
                        return named->run("x", with(request, by_name));
                      }),
                      plain / 5)
                << name(compression) << ", " << name(collective) << ", " << name(op);
          }
        }
      }
      ASSERT_TRUE(named->end().ok());
    });
  }
}

// Tensors that travel as one have the residuals that they would have alone, as far as the sketch is the same.
TEST(Compressed, FeedbackOfFusedTensorsIsTheirOwn) {
  run_job(2, [](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    std::vector<std::unique_ptr<Tensors>> all;
    std::vector<ErrorFeedback> feedbacks(3);
    std::vector<Request> group;
    for (std::size_t t = 0; t < 3; ++t) {
      all.push_back(std::make_unique<Tensors>(context.rank(), 100 + 30 * t));
      group.push_back(all.back()->request(Collective::allreduce, Compression::bf16));
      if (t != 1) group.back().feedback = &feedbacks[t];
    }
    for (int step = 0; step < 3; ++step) {
      Result<Handle> handle = named->start_group("group", group);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      EXPECT_EQ(named->start_group("other", group).status().code(), Code::invalid_argument);
      ASSERT_TRUE(handle->wait().ok());
    }
    EXPECT_TRUE(feedbacks[1].residual()->empty());
    for (const std::size_t t : {0U, 2U}) {
      const std::vector<float> residual = feedbacks[t].residual().value();
      ASSERT_EQ(residual.size(), 100 + 30 * t);
      EXPECT_TRUE(std::ranges::any_of(residual, [](float each) { return each != 0; }));
      EXPECT_TRUE(std::ranges::all_of(residual, [](float each) { return std::abs(each) < 0.03; }));
    }
    ASSERT_TRUE(named->end().ok());
  });
}

// Element (row, column) of a rank's matrix of rank 2.
float of_matrix(Rank rank, std::size_t row, std::size_t column) {
  const auto r = static_cast<double>(row), c = static_cast<double>(column);
  return static_cast<float>(std::sin(r + rank) * std::cos(c) +
                            0.1 * std::cos(2 * r) * std::sin(c * rank));
}

// The sum of matrices of rank 2 has a rank of 4 with two ranks, so it comes back whole.
TEST(Compressed, MatricesByTheirSingularValues) {
  constexpr std::size_t kRows = 101, kColumns = 90;
  run_job(2, [](Context& context) {
    ASSERT_TRUE(context.set_graph(*fully_connected_graph(2)).ok());
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    Tensors tensors(context.rank(), kRows * kColumns);
    for (std::size_t i = 0; i < tensors.x.size(); ++i)
      tensors.x[i] = of_matrix(context.rank(), i / kColumns, i % kColumns);
    const std::size_t shape[] = {kRows, kColumns};
    for (const Collective collective : {Collective::allreduce, Collective::neighbor_allreduce}) {
      for (const bool by_name : {false, true}) {
        Request request = tensors.request(collective, Compression::low_rank);
        if (by_name) {
          request.shape = shape;
        } else {
          request.low_rank.rows = kRows;
        }
        std::fill_n(tensors.y.data(), tensors.y.size(), 0.0F);
        const Status status = by_name ? named->run("x", request) : context.run(request);
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_TRUE(is_near(tensors.y, 4e-3,
                            [](std::size_t i) {
                              return (of_matrix(0, i / kColumns, i % kColumns) +
                                      of_matrix(1, i / kColumns, i % kColumns)) /
                                     2.0;
                            }))
            << name(collective) << (by_name ? " by name" : "");
        EXPECT_TRUE(collective != Collective::allreduce || is_same_on_all(context, tensors.y));
      }
    }
    ASSERT_TRUE(named->end().ok());
  });
}

TEST(Compressed, RanksWithOtherMatricesAllFail) {
  for (const Collective collective : {Collective::allreduce, Collective::neighbor_allreduce}) {
    const auto statuses = outcomes(2, [&](Context& context) {
      Tensors tensors(context.rank(), 10'000);
      Request request = tensors.request(collective, Compression::low_rank);
      request.low_rank = {.rows = context.rank() == 0 ? 200U : 50U, .rank = 4};
      const Status status = context.run(request);
      return status.ok() ? context.barrier() : status;
    });
    for (const Status& status : statuses)
      EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
  }
}

TEST(Compressed, WhatCannotBeCompressedIsNamed) {
  run_job(2, [](Context& context) {
    Tensors tensors(context.rank(), 8);
    Array<double> doubles(8, true);
    const auto said = [&](const Request& request) {
      const Status status = context.run(request);
      EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
      EXPECT_FALSE(context.prepare(request).ok());
      return std::string(status.text());
    };
    const auto with = [&](auto&& change) {
      Request request = tensors.request(Collective::allreduce, Compression::sketch);
      change(request);
      return request;
    };
    EXPECT_EQ(said(with([](Request& it) { it.collective = Collective::broadcast; })),
              "broadcast: cannot be compressed; neighbor_allreduce and allreduce can");
    EXPECT_EQ(said(with([](Request& it) { it.compression = Compression::low_rank; })),
              "allreduce: low_rank takes a matrix: it needs the number of rows, or the tensor's "
              "shape");
    EXPECT_EQ(said(with([](Request& it) { it.op = ReduceOp::max; })),
              "allreduce: max of compressed tensors has no meaning; use sum or average");
    EXPECT_EQ(said(with([&](Request& it) {
                it.input = in(doubles.data(), 8);
                it.output = out(doubles.data(), 8);
              })),
              "allreduce: compression (sketch) takes f32, not f64");
    EXPECT_EQ(said(with([](Request& it) { it.algorithm = AllreduceAlgorithm::ring; })),
              "allreduce: compressed tensors travel by the algorithm split, not ring");
    EXPECT_NE(said(with([](Request& it) { it.input.count = 7; })).find("7"), std::string::npos);
    const ErrorFeedback feedback;
    EXPECT_EQ(said(with([&](Request& it) {
                it.compression = Compression::none;
                it.feedback = &feedback;
              })),
              "allreduce: error feedback is for compressed tensors");
    const NeighborWeight half[] = {{1 - context.rank(), 0.5}};
    const NeighborWeights push{.self = 0.5, .sources = std::nullopt, .destinations = half};
    EXPECT_NE(said(with([&](Request& it) {
                it.collective = Collective::neighbor_allreduce;
                it.weights = &push;
              })).find("dst_weights must be 1"),
              std::string::npos);
    ASSERT_TRUE(context.barrier().ok()) << "the context goes on";
  });
}

TEST(Compressed, RanksThatCompressDifferentlyAllFail) {
  for (const Collective collective : {Collective::allreduce, Collective::neighbor_allreduce}) {
    for (const Compression other : {Compression::none, Compression::bf16, Compression::sketch}) {
      const auto statuses = outcomes(3, [&](Context& context) {
        Tensors tensors(context.rank(), 10'000);
        const Status status = context.run(
            tensors.request(collective, context.rank() == 1 ? other : Compression::f16));
        return status.ok() ? context.barrier() : status;
      });
      bool is_told = false;
      for (const Status& status : statuses) {
        EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
        is_told |= status.text().find("compresses as") != std::string_view::npos;
      }
      EXPECT_TRUE(is_told) << name(other) << ": " << statuses[0].to_string();
    }
  }
}

}  // namespace
}  // namespace weft
