// Allreduces that name NCCL as their algorithm, on the fakes of both libraries: what they give, and that
// all ranks get an error where NCCL cannot run them. Ranks are threads; there are two GPUs.
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "engine/gpu/gpu.h"
#include "tests/context/cluster.h"
#include "tests/context/outcomes.h"
#include "tests/cuda/nccl_ranks.h"

namespace weft {
namespace {

using NcclAlgorithm = Nccl;

Request by_nccl(Request request) {
  request.algorithm = AllreduceAlgorithm::nccl;
  return request;
}

// The first one waits until the communicator is made; a small one is no exception.
TEST_F(NcclAlgorithm, RunsWhatNamesIt) {
  run_job(
      2,
      [](Context& context) {
        const OnGpu on(context.rank()), again(context.rank());
        const std::vector<float> sums = sums_of(2);
        GpuArray<float> small(3, context.rank());
        small.set({1, 2, 3});
        const std::uint64_t before = gpu_usage().by_nccl;
        Result<Handle> first = context.start(by_nccl(on.request(Collective::allreduce)));
        ASSERT_TRUE(first.ok()) << first.status().to_string();
        const Status status = context.run(by_nccl({.collective = Collective::allreduce,
                                                   .input = in(small.data(), 3),
                                                   .output = out(small.data(), 3),
                                                   .op = ReduceOp::sum}));
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_TRUE(first->wait().ok());
        EXPECT_EQ(small.get(), (std::vector<float>{2, 4, 6}));
        EXPECT_EQ(on.y.get(), sums);
        EXPECT_TRUE(says(context, "allreduce: nccl (")) << context.explain();
        Result<Prepared> prepared =
            context.prepare(by_nccl(again.request(Collective::allreduce, ReduceOp::max)));
        ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
        for (int i = 0; i < 2; ++i) ASSERT_TRUE(prepared->run().ok());
        ASSERT_TRUE(context.barrier().ok());
        EXPECT_EQ(gpu_usage().by_nccl - before, 8U);  // of both ranks
        // Nothing, and what one rank has, need no GPU.
        EXPECT_TRUE(context.run(by_nccl({.collective = Collective::allreduce})).ok());
        Result<std::unique_ptr<Context>> alone = context.split(context.rank());
        ASSERT_TRUE(alone.ok()) << alone.status().to_string();
        std::vector<float> host{5}, result{0};
        EXPECT_TRUE((*alone)
                        ->allreduce(in(host.data(), 1), out(result.data(), 1), ReduceOp::sum,
                                    AllreduceAlgorithm::nccl)
                        .ok());
        EXPECT_EQ(result, host);
      },
      config(NcclUse::automatic));
}

TEST_F(NcclAlgorithm, RunsWhatNamesItByName) {
  run_job(
      2,
      [](Context& context) {
        Result<Named> named = context.named();
        ASSERT_TRUE(named.ok()) << named.status().to_string();
        std::deque<GpuArray<float>> small;
        std::vector<Request> group;
        for (int i = 0; i < 3; ++i) {
          small.emplace_back(10, context.rank()).set(std::vector<float>(10, 1));
          group.push_back(by_nccl({.collective = Collective::allreduce,
                                   .input = in(small.back().data(), 10),
                                   .output = out(small.back().data(), 10),
                                   .op = ReduceOp::sum}));
        }
        Result<Handle> handle = named->start_group("small", group);
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        const Status status = handle->wait();
        ASSERT_TRUE(status.ok()) << status.to_string();
        for (const GpuArray<float>& each : small) EXPECT_EQ(each.get(), std::vector<float>(10, 2));
        // An error of this operation alone.
        std::vector<float> host(10, 1);
        if (context.rank() == 0) {
          group[0].input = in(host.data(), 10);
          group[0].output = out(host.data(), 10);
        }
        expect_names(named->run("host", group[0]), Code::invalid_argument,
                     {"rank 0 does not have its whole input and output on one GPU"});
        group[1].collective = Collective::local_allreduce;
        expect_names(named->run("other", group[1]), Code::invalid_argument,
                     {"local_allreduce: has no algorithms, so nccl cannot be asked for"});
        EXPECT_TRUE(named->run("more", group[2]).ok());
        ASSERT_TRUE(named->end().ok());
      },
      config());
}

// All ranks get the error, and the context goes on.
TEST_F(NcclAlgorithm, WhatNamesItWhereItCannotRunIsAnErrorOfAllRanks) {
  run_job(
      2,
      [](Context& context) {
        OnGpu on(context.rank());
        const Request request = by_nccl(on.request(Collective::allreduce));
        std::vector<float> x = values_of(context.rank()), y(kCount);
        Request mixed = request;
        if (context.rank() == 1) mixed.input = in(x.data(), kCount);
        for (int i = 0; i < 2; ++i) {
          expect_names(context.run(mixed), Code::invalid_argument,
                       {"rank 1 does not have its whole input and output on one GPU"});
          if (context.rank() == 1) mixed.output = out(y.data(), kCount);
        }
        EXPECT_EQ(y, std::vector<float>(kCount));
        Request bits = request;
        bits.op = ReduceOp::bit_and;
        bits.input.type = bits.output.type = DataType::i32;
        expect_names(context.run(bits), Code::invalid_argument, {"it has no bit_and of i32"});
        Request broadcast = by_nccl(on.request(Collective::broadcast));
        broadcast.root = 0;
        expect_names(context.run(broadcast), Code::invalid_argument,
                     {"broadcast: has no algorithms, so nccl cannot be asked for"});
        ASSERT_TRUE(context.run(request).ok());
        EXPECT_EQ(on.y.get(), sums_of(2));
        // Another GPU than before.
        const OnGpu other(1 - context.rank());
        expect_names(context.run(by_nccl(other.request(Collective::allreduce))),
                     Code::invalid_argument, {"has used NCCL with another GPU before"});
        ASSERT_TRUE(context.run(other.request(Collective::allreduce)).ok());
      },
      config());
}

TEST_F(NcclAlgorithm, RanksThatShareAGpuCannotNameIt) {
  run_job(
      2,
      [](Context& context) {
        const OnGpu on(0);
        for (int i = 0; i < 2; ++i) {
          expect_names(context.run(by_nccl(on.request(Collective::allreduce))), Code::unavailable,
                       {i == 0 ? "ranks 0 and 1 of the machine share the GPU" : ""});
          ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
        }
      },
      config());
}

TEST_F(NcclAlgorithm, ItCannotBeNamedIfItIsOffAtARank) {
  run_job_with(
      2, [](Rank rank) { return config(rank == 0 ? NcclUse::off : NcclUse::automatic); },
      [](Context& context) {
        const OnGpu on(context.rank());
        expect_names(context.run(by_nccl(on.request(Collective::allreduce))), Code::unavailable,
                     {context.rank() == 0 ? "WEFT_NCCL is off" : "another rank cannot use it"});
        ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
      });
}

TEST_F(NcclAlgorithm, RanksThatNameDifferentAlgorithmsDisagree) {
  const std::array<OnGpu, 2> tensors{OnGpu(0), OnGpu(1)};
  const std::vector<Status> statuses = outcomes(
      2,
      [&](Context& context) -> Status {
        Request request =
            tensors[static_cast<std::size_t>(context.rank())].request(Collective::allreduce);
        if (context.rank() == 1) request = by_nccl(request);
        return context.run(request);
      },
      config());
  for (const Status& each : statuses)
    expect_names(each, Code::mismatch, {"asks for another algorithm than this rank"});
}

// NCCL compares neither sizes nor operators.
TEST_F(NcclAlgorithm, RanksThatDifferInTheRequestDisagree) {
  const std::array<OnGpu, 2> tensors{OnGpu(0), OnGpu(1)};
  for (const bool is_named : {true, false}) {
    for (const bool is_shorter : {true, false}) {
      const std::vector<Status> statuses = outcomes(
          2,
          [&](Context& context) -> Status {
            const OnGpu& on = tensors[static_cast<std::size_t>(context.rank())];
            Request request = by_nccl(on.request(Collective::allreduce));
            WEFT_RETURN_IF_ERROR(context.run(request));
            if (!is_named) request.algorithm = AllreduceAlgorithm::automatic;
            if (context.rank() == 1 && is_shorter) request.input.count = --request.output.count;
            if (context.rank() == 1 && !is_shorter) request.op = ReduceOp::max;
            return context.run(request);
          },
          config());
      for (const Status& each : statuses)
        EXPECT_EQ(each.code(), Code::mismatch) << each.to_string();
    }
  }
}

TEST_F(NcclAlgorithm, ACommunicatorThatCannotBeMadeEndsWhatNamesIt) {
  fail_("ncclCommInitRankConfig", 1);
  const std::vector<Status> statuses = outcomes(
      2,
      [](Context& context) -> Status {
        const OnGpu on(context.rank());
        return context.run(by_nccl(on.request(Collective::allreduce)));
      },
      config());
  for (const Status& each : statuses)
    expect_names(each, Code::system, {"ncclCommInitRankConfig: unhandled system error"});
}

#ifdef HAS_UCX
TEST_F(NcclAlgorithm, ItCannotBeNamedOnSeveralMachines) {
  run_machines(
      {0, 1},
      [](Context& context) {
        const OnGpu on(context.rank());
        expect_names(context.run(by_nccl(on.request(Collective::allreduce))),
                     Code::invalid_argument, {"allreduce by nccl: the ranks are on 2 machines"});
      },
      config());
}
#endif

}  // namespace
}  // namespace weft
