// Operations of a machine's ranks by NCCL, on the fakes of both libraries: when they run so, what they
// give, and what goes wrong. Ranks are threads; there are two GPUs.
#include <array>
#include <functional>
#include <string>

#include "engine/gpu/gpu.h"
#include "tests/context/cluster.h"
#include "tests/context/outcomes.h"
#include "tests/cuda/nccl_ranks.h"

namespace weft {
namespace {

// Calls until the ranks have made the communicator, which takes them no operation but some time; all
// ranks do the same number of calls. Each result is right.
void get_ready(Context& context, const OnGpu& on) {
  const std::vector<float> sums = sums_of(context.size());
  constexpr int kMost = 5'000;
  for (int i = 0; i < kMost; ++i) {
    const Status status = context.run(on.request(Collective::allreduce));
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_EQ(on.y.get(), sums);
    int is_used =
        says(context, "operations by NCCL 2.28.3") && !says(context, "NCCL: 0 op") ? 1 : 0;
    ASSERT_TRUE(context.allreduce(in(&is_used, 1), out(&is_used, 1), ReduceOp::min).ok());
    if (is_used != 0) return;
  }
  FAIL() << context.explain();
}

// Two ranks that have the communicator.
void run_ready(const Config& config, const std::function<void(Context&, const OnGpu&)>& body) {
  run_job(
      2,
      [&](Context& context) {
        const OnGpu on(context.rank());
        ASSERT_NO_FATAL_FAILURE(get_ready(context, on));
        body(context, on);
      },
      config);
}

TEST_F(Nccl, RunsOperationsOfRanksWithGpusOfTheirOwn) {
  run_ready(config(), [](Context& context, const OnGpu& on) {
    ASSERT_TRUE(context.barrier().ok());
    const GpuUsage before = gpu_usage();
    ASSERT_TRUE(context.barrier().ok());
    const std::vector<float> sums = sums_of(2);
    const auto run = [&](const Request& request) {
      const Status status = context.run(request);
      ASSERT_TRUE(status.ok()) << status.to_string();
    };
    run(on.request(Collective::allreduce));
    EXPECT_EQ(on.y.get(), sums);
    run(on.request(Collective::local_allreduce));
    EXPECT_EQ(on.y.get(), sums);
    run(on.request(Collective::allreduce, ReduceOp::average));
    std::vector<float> means = sums;
    for (float& each : means) each /= 2;
    EXPECT_EQ(on.y.get(), means);
    Request broadcast = on.request(Collective::broadcast);
    broadcast.root = 1;
    run(broadcast);
    EXPECT_EQ(on.y.get(), values_of(1));
    Request in_place = on.request(Collective::allreduce, ReduceOp::max);
    in_place.output.data = on.x.data();
    run(in_place);
    std::vector<float> largest = values_of(0);
    const std::vector<float> others = values_of(1);
    for (std::size_t i = 0; i < kCount; ++i) largest[i] = std::max(largest[i], others[i]);
    EXPECT_EQ(on.x.get(), largest);
    ASSERT_TRUE(context.barrier().ok());
    const GpuUsage after = gpu_usage();
    EXPECT_EQ(after.bytes_out, before.bytes_out);
    EXPECT_EQ(after.launches, before.launches);
    EXPECT_EQ(after.with_aliases, before.with_aliases);
    ASSERT_TRUE(context.barrier().ok());
  });
}

// They have a context, and so a communicator, of their own. Small tensors and those of neighbors are
// among them, in another order on each rank.
TEST_F(Nccl, RunsOperationsByName) {
  run_job(
      2,
      [](Context& context) {
        Result<Named> named = context.named();
        ASSERT_TRUE(named.ok()) << named.status().to_string();
        const OnGpu on(context.rank()), to_neighbors(context.rank());
        GpuArray<float> small(100, context.rank());
        const std::vector<float> sums = sums_of(2);
        std::vector<std::pair<const char*, Request>> all = {
            {"large", on.request(Collective::allreduce)},
            {"small",
             {.collective = Collective::allreduce,
              .input = in(small.data(), 100),
              .output = out(small.data(), 100)}},
            {"neighbors", to_neighbors.request(Collective::neighbor_allreduce)}};
        if (context.rank() == 1) std::ranges::reverse(all);
        const std::uint64_t before = gpu_usage().by_nccl;
        int is_used = 0;
        for (int i = 0; is_used == 0 && i < 5'000; ++i) {
          std::vector<Handle> handles;
          for (const auto& [name, request] : all) {
            Result<Handle> handle = named->start(name, request);
            ASSERT_TRUE(handle.ok()) << handle.status().to_string();
            handles.push_back(*handle);
          }
          for (Handle& handle : handles) ASSERT_TRUE(handle.wait().ok());
          ASSERT_EQ(on.y.get(), sums);
          is_used = gpu_usage().by_nccl - before >= 4 ? 1 : 0;
          ASSERT_TRUE(context.allreduce(in(&is_used, 1), out(&is_used, 1), ReduceOp::min).ok());
        }
        EXPECT_EQ(is_used, 1);
        ASSERT_TRUE(named->end().ok());
      },
      config());
}

#ifdef HAS_UCX
// Rank r is on machine r / 2; each machine's ranks have a GPU each, and NCCL computes their means.
class NcclMachines : public Nccl {
 protected:
  static constexpr int kRanks = 4;
  void run(const RankBody& body, const Config& made = config()) {
    run_machines({0, 0, 1, 1}, body, made);
  }
  static Request request_of(const OnGpu& on) {
    return on.request(Collective::hierarchical_neighbor_allreduce);
  }
  // Both machines' means, half each. All values are small multiples of an eighth.
  static std::vector<float> means() {
    std::vector<float> means = sums_of(kRanks);
    for (float& each : means) each /= kRanks;
    return means;
  }
};

TEST_F(NcclMachines, TheMeansOfMachinesAreNccls) {
  run([](Context& context) {
    ASSERT_TRUE(context.set_machine_graph(*fully_connected_graph(2)).ok());
    OnGpu on(context.rank() % 2), in_place(context.rank() % 2);
    on.x.set(values_of(context.rank()));
    const std::vector<float> expected = means();
    const std::uint64_t before = gpu_usage().by_nccl;
    int is_used = 0;
    for (int i = 0; is_used == 0 && i < 2'000; ++i) {
      const Status status = context.run(request_of(on));
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(on.y.get(), expected) << i;
      is_used = gpu_usage().by_nccl - before >= 16 ? 1 : 0;  // of all ranks of the process
      ASSERT_TRUE(context.allreduce(in(&is_used, 1), out(&is_used, 1), ReduceOp::min).ok());
    }
    EXPECT_EQ(is_used, 1) << context.explain();
    // In place, by a handle, and with an end of one rank on the host: that one is not NCCL's.
    in_place.x.set(values_of(context.rank()));
    Request request = request_of(in_place);
    request.output.data = in_place.x.data();
    ASSERT_TRUE(context.run(request).ok());
    EXPECT_EQ(in_place.x.get(), expected);
    std::vector<float> host = values_of(context.rank());
    request = request_of(on);
    if (context.rank() == 3) request.input.data = host.data();
    Result<Handle> handle = context.start(request);
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    ASSERT_TRUE(handle->wait().ok());
    EXPECT_EQ(on.y.get(), expected);
    request = request_of(on);
    if (context.rank() == 3) {
      request.input.data = host.data();
      request.output.data = host.data();
    }
    ASSERT_TRUE(context.run(request).ok());
    EXPECT_EQ(context.rank() == 3 ? host : on.y.get(), expected);
  });
}

// The stream is held from the call to the end of the second part.
TEST_F(NcclMachines, TheyKeepTheOrderOfStreams) {
  run([this](Context& context) {
    ASSERT_TRUE(context.set_machine_graph(*fully_connected_graph(2)).ok());
    OnGpu on(context.rank() % 2);
    const int gpu = context.rank() % 2;
    const std::vector<float> expected = means();
    const std::vector<float> values = values_of(context.rank());
    std::vector<float> copy(kCount);
    void* const stream = fake.stream(gpu);
    for (int i = 0; i < 60; ++i) {
      on.x.set(std::vector<float>(kCount, -1));
      on.y.set(std::vector<float>(kCount, -1));
      fake.copy_in(gpu, on.x.data(), values.data(), kCount * sizeof(float), stream);
      Request request = request_of(on);
      request.stream = Stream{stream};
      Result<Handle> handle = context.start(request);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      fake.copy_out(gpu, copy.data(), on.y.data(), kCount * sizeof(float), stream);
      ASSERT_TRUE(handle->wait().ok());
      fake.run();
      ASSERT_EQ(copy, expected) << i;
    }
  });
}

TEST_F(NcclMachines, AutomaticTimesBothPartsTogether) {
  run(
      [](Context& context) {
        ASSERT_TRUE(context.set_machine_graph(*fully_connected_graph(2)).ok());
        OnGpu on(context.rank() % 2);
        on.x.set(values_of(context.rank()));
        const std::vector<float> expected = means();
        int is_told = 0;
        for (int i = 0; is_told == 0 && i < 2'000; ++i) {
          const Status status = context.run(request_of(on));
          ASSERT_TRUE(status.ok()) << status.to_string();
          ASSERT_EQ(on.y.get(), expected) << i;
          is_told = says(context, "hierarchical_neighbor_allreduce of 1024 KiB and more: ") ? 1 : 0;
          ASSERT_TRUE(context.allreduce(in(&is_told, 1), out(&is_told, 1), ReduceOp::min).ok());
        }
        EXPECT_EQ(is_told, 1) << context.explain();
      },
      config(NcclUse::automatic));
}
#endif

TEST_F(Nccl, AnEndOnTheHostTakesAnotherWay) {
  run_ready(config(), [](Context& context, const OnGpu& on) {
    std::vector<float> x = values_of(context.rank()), y(kCount);
    Request mixed = on.request(Collective::allreduce);
    if (context.rank() == 1) {
      mixed.input = in(x.data(), kCount);
      mixed.output = out(y.data(), kCount);
    }
    for (int i = 0; i < 3; ++i) {
      const Status status = context.run(mixed);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(context.rank() == 1 ? y : on.y.get(), sums_of(2));
      ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
    }
  });
}

// Ranks begin operations on streams of their own, of which one goes before the other.
TEST_F(Nccl, StartedOperationsBeginInOneOrder) {
  launch_slowly_(3);
  run_ready(config(), [this](Context& context, const OnGpu&) {
    std::vector<std::unique_ptr<OnGpu>> all;
    std::vector<Handle> handles;
    for (int i = 0; i < 4; ++i) {
      all.push_back(std::make_unique<OnGpu>(context.rank()));
      Request request = all.back()->request(Collective::allreduce);
      request.stream = Stream{fake.stream(context.rank())};
      if (i % 2 == 1) {
        request.collective = Collective::broadcast;
        request.root = 0;
      }
      Result<Handle> handle = context.start(request);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*std::move(handle));
    }
    for (int i = 3; i >= 0; --i) {
      const Status status = handles[static_cast<std::size_t>(i)].wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(all[static_cast<std::size_t>(i)]->y.get(), i % 2 == 1 ? values_of(0) : sums_of(2));
    }
  });
}

TEST_F(Nccl, AutomaticMeasuresBothWays) {
  run_ready(config(NcclUse::automatic), [](Context& context, const OnGpu& on) {
    for (int i = 0; i < 12; ++i) {
      ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
      ASSERT_EQ(on.y.get(), sums_of(2));
    }
    EXPECT_TRUE(says(context, "allreduce of 1024 KiB and more: ")) << context.explain();
    EXPECT_TRUE(says(context, "us, by Weft ")) << context.explain();
  });
}

// All decide from the same votes.
TEST_F(Nccl, RanksMayHaveDifferentSettings) {
  run_job_with(
      2, [](Rank rank) { return config(rank == 0 ? NcclUse::on : NcclUse::automatic); },
      [](Context& context) {
        const OnGpu on(context.rank());
        ASSERT_NO_FATAL_FAILURE(get_ready(context, on));
        for (int i = 0; i < 12; ++i) {
          ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
          ASSERT_EQ(on.y.get(), sums_of(2));
        }
      });
}

TEST_F(Nccl, RanksThatShareAGpuDoNotUseIt) {
  run_job(
      2,
      [](Context& context) {
        const OnGpu on(0);
        int is_told = 0;
        for (int i = 0; is_told == 0 && i < 5'000; ++i) {
          ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
          is_told = says(context, "ranks 0 and 1 of the machine share the GPU") ? 1 : 0;
          ASSERT_TRUE(context.allreduce(in(&is_told, 1), out(&is_told, 1), ReduceOp::min).ok());
        }
        EXPECT_EQ(is_told, 1) << context.explain();
      },
      config());
}

TEST_F(Nccl, IsNotUsedIfItIsOff) {
  run_job(
      2,
      [](Context& context) {
        const OnGpu on(context.rank());
        for (int i = 0; i < 3; ++i)
          ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
        EXPECT_TRUE(says(context, "NCCL: not used: WEFT_NCCL is off")) << context.explain();
      },
      config(NcclUse::off));
}

TEST_F(Nccl, ACommunicatorThatCannotBeMadeIsDoneWithout) {
  fail_("ncclCommInitRankConfig", 1);
  Config impatient = config();
  impatient.deadline_ms = 2'000;
  run_job(
      2,
      [](Context& context) {
        const OnGpu on(context.rank());
        int gave_up = 0;
        for (int i = 0; gave_up == 0 && i < 100'000; ++i) {
          ASSERT_TRUE(context.run(on.request(Collective::allreduce)).ok());
          gave_up = says(context, "NCCL: not used: ") ? 1 : 0;
          ASSERT_TRUE(context.allreduce(in(&gave_up, 1), out(&gave_up, 1), ReduceOp::min).ok());
        }
        EXPECT_TRUE(says(context, "ncclCommInitRankConfig: unhandled system error (NCCL 2.28.3)") ||
                    says(context, "have not made a communicator in time"))
            << context.explain();
      },
      impatient);
}

TEST_F(Nccl, AnOperationThatFailsEndsOnAllRanks) {
  Config impatient = config();
  impatient.deadline_ms = 1'000;
  const std::array<OnGpu, 2> tensors{OnGpu(0), OnGpu(1)};  // as below
  const std::vector<Status> statuses = outcomes(
      2,
      [&](Context& context) -> Status {
        const OnGpu& on = tensors[static_cast<std::size_t>(context.rank())];
        get_ready(context, on);
        if (context.rank() == 1) fail_("ncclAllReduce", 1);
        WEFT_RETURN_IF_ERROR(context.barrier());
        return context.run(on.request(Collective::allreduce));
      },
      impatient);
  int named = 0;
  for (const Status& each : statuses) {
    EXPECT_FALSE(each.ok());
    named += each.text().find("ncclAllReduce: unhandled system error") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(named, 1) << statuses[0].to_string() << " / " << statuses[1].to_string();
}

// Rank 1's stream never gets there.
TEST_F(Nccl, APeerThatDoesNotComeIsADeadline) {
  Config impatient = config();
  impatient.deadline_ms = 700;
  // The GPU goes on with it until the communicator has ended, with the contexts at the latest.
  const std::array<OnGpu, 2> tensors{OnGpu(0), OnGpu(1)};
  const std::vector<Status> statuses = outcomes(
      2,
      [&](Context& context) -> Status {
        const OnGpu& on = tensors[static_cast<std::size_t>(context.rank())];
        get_ready(context, on);
        void* const stream = fake.stream(context.rank());
        if (context.rank() == 1) fake.hold(stream);
        WEFT_RETURN_IF_ERROR(context.barrier());
        Request request = on.request(Collective::allreduce);
        request.stream = Stream{stream};
        const Status status = context.run(request);
        if (context.rank() == 1) fake.release(stream);
        return status;
      },
      impatient);
  EXPECT_FALSE(statuses[1].ok());
  const bool is_late = statuses[0].code() == Code::timed_out;
  EXPECT_TRUE(is_late || statuses[1].code() == Code::timed_out) << statuses[1].to_string();
}

}  // namespace
}  // namespace weft
