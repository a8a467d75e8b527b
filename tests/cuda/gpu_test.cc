// Operations on GPU memory, on the fake of the driver: what they give, what they wait for and
// what waits for them, and what goes wrong. Ranks are threads.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "tests/context/outcomes.h"
#include "tests/cuda/fake_library.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

class Gpu : public testing::Test {
 protected:
  Gpu() { fake.reset(); }
  ~Gpu() override { fake.reset(); }
  const FakeDriver& fake = FakeDriver::get();
};

std::vector<float> values_of(Rank rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 32);
  return values;
}

// The first test of the process: the driver is loaded, and nobody has initialized it.
TEST_F(Gpu, ADriverThatIsOnlyLoadedIsLeftAlone) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(1, [](Context& context) {
    float x = 1;
    EXPECT_TRUE(context.allreduce(in(&x, 1), out(&x, 1)).ok());
    EXPECT_EQ(memory_place(&x).kind, MemoryKind::host);
  });
  EXPECT_EQ(fake.initialized(), 0);
}

TEST_F(Gpu, KindsOfMemoryAreToldApart) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(1, [](Context&) {});  // the heap has the tests' settings
  GpuArray<float> gpu(100, 1);
  EXPECT_EQ(memory_place(gpu.data()).kind, MemoryKind::device);
  EXPECT_EQ(memory_place(gpu.data() + 99).device, 1);
  float host = 0;
  EXPECT_EQ(memory_place(&host).kind, MemoryKind::host);
  EXPECT_EQ(memory_place(nullptr).kind, MemoryKind::host);
  const Memory heap = Memory::allocate(100).value();
  EXPECT_EQ(memory_place(heap.data()).kind, MemoryKind::host);
  EXPECT_EQ(allocate(std::size_t{1} << 40, Device{0}).status().code(), Code::exhausted);
  expect_names(allocate(1, Device{7}).status(), Code::invalid_argument, {"GPU 7", "there are 2"});
  expect_names(deallocate(&host, Device{0}), Code::invalid_argument, {"no GPU memory"});
}

// Rank r has its input and output on the host or on a GPU, in all combinations.
int input_device(Rank rank) {
  return rank % 3 - 1;
}
int output_device(Rank rank) {
  return (rank + 1) % 3 - 1;
}

struct Case {
  const char* name;
  Collective collective;
  std::size_t in, out;  // elements, for 4 ranks
  Rank root = kNoRank;
};
class EveryOperation : public Gpu, public testing::WithParamInterface<Case> {};
constexpr std::size_t kCount = 3000;
INSTANTIATE_TEST_SUITE_P(
    Operations, EveryOperation,
    testing::Values(Case{"neighbor_allreduce", Collective::neighbor_allreduce, kCount, kCount},
                    Case{"neighbor_allgather", Collective::neighbor_allgather, kCount, 2 * kCount},
                    Case{"allreduce", Collective::allreduce, kCount, kCount},
                    Case{"allreduce_large", Collective::allreduce, 1'000'000, 1'000'000},
                    Case{"broadcast", Collective::broadcast, kCount, kCount, 2},
                    Case{"allgather", Collective::allgather, kCount, 4 * kCount},
                    Case{"reduce_scatter", Collective::reduce_scatter, 4 * kCount, kCount},
                    Case{"reduce", Collective::reduce, kCount, kCount, 1},
                    Case{"gather", Collective::gather, kCount, 4 * kCount, 3},
                    Case{"scatter", Collective::scatter, 4 * kCount, kCount, 0},
                    Case{"alltoall", Collective::alltoall, 4 * kCount, 4 * kCount},
                    Case{"empty", Collective::allreduce, 0, 0}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryOperation, GivesWhatItGivesOnTheHost) {
  const Case& what = GetParam();
  run_job(4, [&](Context& context) {
    const Rank rank = context.rank();
    GpuArray<float> x(what.in, input_device(rank)), y(what.out, output_device(rank));
    std::vector<float> host_x = values_of(rank, what.in), host_y(what.out, -1);
    y.set(host_y);
    Request request{.collective = what.collective, .op = ReduceOp::sum, .root = what.root};
    request.input = in(host_x.data(), what.in);
    request.output = out(host_y.data(), what.out);
    const Status expected = context.run(request);
    ASSERT_TRUE(expected.ok()) << expected.to_string();
    x.set(host_x);
    request.input = in(x.data(), what.in);
    request.output = out(y.data(), what.out);
    Result<Prepared> prepared = context.prepare(request);
    ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
    for (const std::string_view way : {"blocking", "started", "prepared", "prepared, again"}) {
      Status status;
      if (way == "started") {
        Result<Handle> handle = context.start(request);
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        status = handle->wait();
      } else {
        status = way == "blocking" ? context.run(request) : prepared->run();
      }
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(y.get(), host_y) << way;
      EXPECT_EQ(x.get(), host_x);
    }
  });
}

TEST_F(Gpu, InputAndOutputMayShareMemory) {
  run_job(3, [&](Context& context) {
    GpuArray<float> x(500, 0);
    x.set(values_of(context.rank(), 500));
    ASSERT_TRUE(context.allreduce(in(x.data(), 500), out(x.data(), 500), ReduceOp::max).ok());
    std::vector<float> expected = values_of(0, 500);
    for (Rank rank : {1, 2})
      for (std::size_t i = 0; i < 500; ++i)
        expected[i] = std::max(expected[i], values_of(rank, 500)[i]);
    EXPECT_EQ(x.get(), expected);
    // Gathered in place: the input is a part of the output.
    GpuArray<float> all(1500, 1);
    std::vector<float> values(1500);
    const auto own = static_cast<std::size_t>(context.rank()) * 500;
    std::ranges::copy(values_of(context.rank(), 500),
                      values.begin() + static_cast<std::ptrdiff_t>(own));
    all.set(values);
    ASSERT_TRUE(context.allgather(in(all.data() + own, 500), out(all.data(), 1500)).ok());
    for (Rank rank = 0; rank < 3; ++rank)
      std::ranges::copy(values_of(rank, 500), values.begin() + rank * 500);
    EXPECT_EQ(all.get(), values);
  });
}

// What the host freed may be given to a GPU next. A call that repeats the last one on its channel is not
// the same call then.
TEST_F(Gpu, AnAddressOfTheHostMayBecomeAGpus) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  Config config = test_config();
  config.channels = 1;
  const auto is_well = [](const Status& status) {
    return status.ok() ? testing::AssertionSuccess()
                       : testing::AssertionFailure() << status.to_string();
  };
  run_job(
      1,
      [&](Context& context) {
        constexpr std::size_t kFloats = 1024;  // a page
        for (const bool is_input : {true, false}) {
          for (const bool is_patient : {false, true}) {
            void* const page = mmap(nullptr, kFloats * sizeof(float), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            ASSERT_NE(page, MAP_FAILED);
            std::vector<float> other(kFloats, 5);
            auto* const x = is_input ? static_cast<float*>(page) : other.data();
            auto* const y = is_input ? other.data() : static_cast<float*>(page);
            const Request request{.collective = Collective::allreduce,
                                  .input = in(x, kFloats),
                                  .output = out(y, kFloats)};
            const auto run = [&] {
              return is_patient ? context.run_for(request, 20'000'000'000).status()
                                : context.run(request);
            };
            ASSERT_TRUE(is_well(run()));
            fake.allocate_at(page);
            ASSERT_EQ(allocate(kFloats * sizeof(float), Device{0}).value(), page);
            const std::vector<float> sevens(kFloats, 7);
            fake.write(page, sevens.data(), kFloats * sizeof(float));
            ASSERT_TRUE(is_well(run()));
            std::vector<float> result(other);
            if (!is_input) fake.read(page, result.data(), kFloats * sizeof(float));
            EXPECT_EQ(result, is_input ? sevens : other);
            ASSERT_TRUE(deallocate(page, Device{0}).ok());
          }
        }
      },
      config);
}

TEST_F(Gpu, LargeOperationsRunOnSeveralLanes) {
  Config config = test_config();
  config.lanes = 2;
  run_job(
      2,
      [&](Context& context) {
        constexpr std::size_t kLarge = 6 << 20;
        GpuArray<float> x(kLarge, context.rank()), y(kLarge, context.rank());
        x.set(std::vector<float>(kLarge, static_cast<float>(context.rank() + 1)));
        ASSERT_TRUE(
            context.allreduce(in(x.data(), kLarge), out(y.data(), kLarge), ReduceOp::sum).ok());
        EXPECT_EQ(y.get(), std::vector<float>(kLarge, 3));
      },
      config);
}

TEST_F(Gpu, CopiesAreAsManyAsPlanned) {
  const GpuCounts before = gpu_counts();
  run_job(2, [&](Context& context) {
    GpuArray<float> x(1000, 0), y(1000, 0);
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(context.allreduce(in(x.data(), 1000), out(y.data(), 1000)).ok());
    // A rank that is not the root has no result to copy.
    ASSERT_TRUE(context.reduce(in(x.data(), 1000), out(y.data(), 1000), 0).ok());
  });
  const GpuCounts after = gpu_counts();
  EXPECT_EQ(after.copies_out - before.copies_out, 8U);
  EXPECT_EQ(after.bytes_out - before.bytes_out, 8U * 4000);
  EXPECT_EQ(after.copies_in - before.copies_in, 7U);
  EXPECT_EQ(after.bytes_in - before.bytes_in, 7U * 4000);
}

// A number of operations later the blocks are those of the first ones.
TEST_F(Gpu, BlocksAreUsedAgain) {
  run_job(2, [&](Context& context) {
    GpuArray<float> x(1000, 0);
    ASSERT_TRUE(context.allreduce(in(x.data(), 1000), out(x.data(), 1000)).ok());
    ASSERT_TRUE(context.barrier().ok());
    const std::uint64_t pinned = gpu_counts().pinned_bytes;
    for (int i = 0; i < 50; ++i)
      ASSERT_TRUE(context.allreduce(in(x.data(), 1000), out(x.data(), 1000)).ok());
    EXPECT_LE(gpu_counts().pinned_bytes, pinned + (128 << 10));
  });
}

TEST_F(Gpu, OperationsByNameGiveTheSame) {
  run_job(3, [&](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok()) << named.status().to_string();
    constexpr std::size_t kMany = 8, kElements = 600;
    std::vector<std::unique_ptr<GpuArray<float>>> x, y;
    for (std::size_t t = 0; t < kMany; ++t) {
      x.push_back(std::make_unique<GpuArray<float>>(kElements, input_device(context.rank())));
      y.push_back(std::make_unique<GpuArray<float>>(kElements, static_cast<int>(t % 2)));
      x[t]->set(std::vector<float>(kElements, static_cast<float>(t + 1)));
    }
    std::vector<Handle> handles;
    std::vector<Request> group;
    // Half of them in the order of a stream.
    void* const stream = fake.stream(0);
    for (std::size_t k = 0; k < kMany; ++k) {
      const std::size_t t = (k + static_cast<std::size_t>(context.rank()) * 3) % kMany;
      Request request{.collective = Collective::allreduce,
                      .input = in(x[t]->data(), kElements),
                      .output = out(y[t]->data(), kElements),
                      .op = ReduceOp::sum};
      if (t % 2 == 0) request.stream = Stream{stream};
      Result<Handle> handle = named->start("tensor" + std::to_string(t), request);
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*handle);
    }
    for (Handle& handle : handles) ASSERT_TRUE(handle.wait().ok());
    for (std::size_t t = 0; t < kMany; ++t)
      EXPECT_EQ(y[t]->get(), std::vector<float>(kElements, static_cast<float>(3 * (t + 1))));
    for (std::size_t t = 0; t < kMany; ++t)
      group.push_back({.collective = Collective::allreduce,
                       .input = in(x[t]->data(), kElements),
                       .output = out(y[t]->data(), kElements),
                       .op = ReduceOp::max});
    Result<Handle> handle = named->start_group("all", group);
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    ASSERT_TRUE(handle->wait().ok());
    EXPECT_EQ(y[3]->get(), std::vector<float>(kElements, 4));
    ASSERT_TRUE(named
                    ->neighbor_allreduce("neighbors", in(x[2]->data(), kElements),
                                         out(y[2]->data(), kElements))
                    .ok());
    EXPECT_EQ(y[2]->get(), std::vector<float>(kElements, 3));
    ASSERT_TRUE(named->end().ok());
  });
}

// Whoever has to open it may be waiting in the driver.
TEST_F(Gpu, AGateOpensByItselfInTheEnd) {
  run_job(1, [](Context&) {});  // the heap has the tests' settings
  GpuArray<float> x(1, 0);
  x.set({0});
  const float value = 5;
  void* const stream = fake.stream(0);
  Result<std::unique_ptr<GpuGate>> gate =
      make_gpu_gate(*gpu_memory(x.data()), now_ns() + 10'000'000);
  ASSERT_TRUE(gate.ok()) << gate.status().to_string();
  ASSERT_TRUE((*gate)->hold(Stream{stream}).ok());
  fake.copy_in(0, x.data(), &value, sizeof value, stream);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (x.get().front() != value && std::chrono::steady_clock::now() < end) {
    if (fake.is_fake()) fake.run();
    std::this_thread::yield();
  }
  EXPECT_EQ(x.get().front(), value);
}

// A large input is on its way to peers while its last parts are still copied.
TEST_F(Gpu, PartsTravelAsTheyAreCopied) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  constexpr std::size_t kLarge = 4 << 20;  // four parts
  Config config = test_config();
  config.gpu_ipc = false;
  fake.run_at_once(0);
  run_job(
      2,
      [&](Context& context) {
        GpuArray<float> x(kLarge, 0);
        std::vector<float> y(kLarge);
        x.set(std::vector<float>(kLarge, 7));
        Request request{.collective = Collective::broadcast, .root = 0};
        request.input = in(context.rank() == 0 ? x.data() : y.data(), kLarge);
        request.output = out(context.rank() == 0 ? x.data() : y.data(), kLarge);
        Result<Handle> handle = context.start(request);
        ASSERT_TRUE(handle.ok()) << handle.status().to_string();
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 1) {
          // An event of the stream, the wait for it, the first copy, and its event.
          EXPECT_EQ(fake.run_some(4), 4);
          const std::atomic_ref<float> first(y.front());
          const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (first.load() != 7 && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
          EXPECT_EQ(first.load(), 7);
          EXPECT_EQ(std::atomic_ref<float>(y.back()).load(), 0) << "its part was not copied yet";
          EXPECT_FALSE(handle->test());
        }
        // Rank 0 lets the rest go when rank 1 has looked.
        ASSERT_TRUE(context.barrier().ok());
        if (context.rank() == 0) fake.run_at_once(1);
        const Status status = handle->wait();
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_TRUE(holds(y.data(), kLarge, context.rank() == 0 ? 0.0F : 7.0F));
      },
      config);
}

TEST_F(Gpu, ExplainTellsHowTheMemoryTravels) {
  run_job(1, [&](Context& context) {
    GpuArray<float> x(64, 0);
    ASSERT_TRUE(context.allreduce(in(x.data(), 64), out(x.data(), 64)).ok());
    EXPECT_NE(context.explain().find("through pinned blocks (the last one: there is no peer)"),
              std::string::npos)
        << context.explain();
  });
}

// Where its blocks are asked for.
TEST_F(Gpu, TheKernelTellsTheNodeOfAGpu) {
  const std::string sys = testing::TempDir() + "weft-gpu-node-" + std::to_string(getpid());
  const std::string folder = sys + "/bus/pci/devices/0000:a0:00.0";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(cuda::numa_node_of("0000:a0:00.0", sys), -1);
  std::ofstream(folder + "/numa_node") << "1\n";
  EXPECT_EQ(cuda::numa_node_of("0000:a0:00.0", sys), 1);
  std::filesystem::remove_all(sys);
}

// Streams.

Request sum_of(const GpuArray<float>& x, const GpuArray<float>& y, std::size_t count,
               void* stream) {
  Request request{.collective = Collective::allreduce,
                  .input = in(x.data(), count),
                  .output = out(y.data(), count),
                  .op = ReduceOp::sum};
  request.stream = Stream{stream};
  return request;
}

TEST_F(Gpu, AnOperationBeginsBehindWhatItsStreamHas) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(2, [&](Context& context) {
    GpuArray<float> x(64, context.rank()), y(64, context.rank());
    const std::vector<float> ones(64, 1);
    void* const stream = fake.stream(context.rank());
    if (context.rank() == 1) fake.hold(stream);
    fake.copy_in(context.rank(), x.data(), ones.data(), 256, stream);  // a kernel, as it were
    Result<Handle> handle = context.start(sum_of(x, y, 64, stream));
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    ASSERT_TRUE(context.barrier().ok());  // other operations go on
    EXPECT_FALSE(handle->test());
    ASSERT_TRUE(context.barrier().ok());
    if (context.rank() == 1) fake.release(stream);
    ASSERT_TRUE(handle->wait().ok());
    EXPECT_EQ(y.get(), std::vector<float>(64, 2));
  });
}

TEST_F(Gpu, WhatIsQueuedLaterWaitsForTheOperation) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(2, [&](Context& context) {
    GpuArray<float> x(64, 0), y(64, 0), z(64, 0);
    x.set(std::vector<float>(64, 1));
    const std::vector<float> nines(64, 9);
    void* const stream = fake.stream(0);
    if (context.rank() == 0) {
      Result<Handle> handle = context.start(sum_of(x, y, 64, stream));
      ASSERT_TRUE(handle.ok());
      fake.copy_in(0, z.data(), nines.data(), 256, stream);
      ASSERT_TRUE(context.send(in(x.data(), 1), 1).ok());
      (void)fake.run();
      EXPECT_EQ(z.get(), std::vector<float>(64, 0));  // rank 1 has not called yet
      float word = 0;
      ASSERT_TRUE(context.send(in(&word, 1), 1).ok());
      ASSERT_TRUE(handle->wait().ok());
      (void)fake.run();
      EXPECT_EQ(z.get(), nines);
    } else {
      float word = 0;
      ASSERT_TRUE(context.recv(out(&word, 1), 0).ok());
      ASSERT_TRUE(context.recv(out(&word, 1), 0).ok());
      ASSERT_TRUE(context.run(sum_of(x, y, 64, stream)).ok());
    }
    EXPECT_EQ(y.get(), std::vector<float>(64, 2));
  });
}

TEST_F(Gpu, WithoutAStreamTheDefaultOneCounts) {
  run_job(2, [&](Context& context) {
    GpuArray<float> x(64, context.rank()), y(64, context.rank());
    const std::vector<float> ones(64, 1);
    fake.copy_in(context.rank(), x.data(), ones.data(), 256, nullptr);
    ASSERT_TRUE(context.allreduce(in(x.data(), 64), out(y.data(), 64), ReduceOp::sum).ok());
    EXPECT_EQ(y.get(), std::vector<float>(64, 2));
  });
}

// What goes wrong.

TEST_F(Gpu, AStreamThatIsBeingCapturedIsRefused) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(1, [&](Context& context) {
    GpuArray<float> x(64, 0);
    void* const stream = fake.stream(0);
    fake.capture(stream, 1);
    expect_names(context.run(sum_of(x, x, 64, stream)), Code::invalid_argument,
                 {"GPU 0", "captured into a graph"});
    fake.capture(stream, 0);
    EXPECT_TRUE(context.run(sum_of(x, x, 64, stream)).ok());
  });
}

TEST_F(Gpu, AStreamForHostMemoryIsRefused) {
  Config config = test_config();
  config.channels = 1;
  run_job(
      1,
      [&](Context& context) {
        GpuArray<float> x(64, -1);
        const auto expect_refused = [&] {
          expect_names(context.run(sum_of(x, x, 64, nullptr)), Code::invalid_argument,
                       {"allreduce", "neither", "GPU memory"});
        };
        expect_refused();
        // Also where all but the stream is as in the last call.
        ASSERT_TRUE(context.allreduce(in(x.data(), 64), out(x.data(), 64), ReduceOp::sum).ok());
        expect_refused();
      },
      config);
}

TEST_F(Gpu, ACopyThatFailsIsAnErrorThatNamesTheMemory) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  const std::vector<Status> ended = outcomes(2, [&](Context& context) {
    GpuArray<float> x(64, context.rank() == 1 ? 1 : -1);
    if (context.rank() == 1) fake.fail("cuMemcpyDtoHAsync", 1, 1);
    const Status status = context.allreduce(in(x.data(), 64), out(x.data(), 64));
    return context.rank() == 1 ? status : Status();
  });
  expect_names(ended[1], Code::system,
               {"GPU 1", "copy 256 bytes from", "CUDA_ERROR_INVALID_VALUE"});
}

TEST_F(Gpu, AResultThatCannotBeCopiedIsAnError) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(1, [&](Context& context) {
    GpuArray<float> x(64, 0);
    fake.fail("cuMemcpyHtoDAsync", 1, 1);
    expect_names(context.allreduce(in(x.data(), 64), out(x.data(), 64)), Code::system,
                 {"GPU 0", "copy 256 bytes to"});
    EXPECT_TRUE(context.barrier().ok());
  });
}

TEST_F(Gpu, MemoryThatIsFreedMeanwhileIsAnError) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(1, [&](Context& context) {
    GpuArray<float> x(64, 0);
    void* const gone = allocate(4096, Device{0}).value();
    void* const stream = fake.stream(0);
    fake.hold(stream);
    Request request = sum_of(x, x, 64, stream);
    request.output = out(static_cast<float*>(gone), 64);
    Result<Handle> handle = context.start(request);
    ASSERT_TRUE(handle.ok());
    ASSERT_TRUE(deallocate(gone, Device{0}).ok());
    fake.release(stream);
    expect_names(handle->wait(), Code::system, {"GPU 0", "copy 256 bytes to"});
  });
}

TEST_F(Gpu, ALostDeviceIsAnErrorOfEveryCall) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  run_job(1, [&](Context& context) {
    GpuArray<float> x(64, 0);
    void* const stream = fake.stream(0);
    fake.hold(stream);
    Result<Handle> handle = context.start(sum_of(x, x, 64, stream));
    ASSERT_TRUE(handle.ok());
    fake.lose_device();
    expect_names(handle->wait(), Code::system, {"GPU 0", "unspecified launch failure"});
    fake.reset();  // for the deallocation
  });
  // Nobody can tell any more what a pointer is: GPU memory must not be taken for the host's.
  run_job(1, [&](Context& context) {
    GpuArray<float> x(64, 0);
    const Memory heap = Memory::allocate(256).value();
    fake.lose_device();
    expect_names(context.allreduce(in(x.data(), 64), out(x.data(), 64)), Code::system,
                 {"GPU memory", "unspecified launch failure"});
    EXPECT_FALSE(context.allreduce(in(x.data(), 64), out(x.data(), 64)).ok());
    EXPECT_TRUE(context.allreduce(in(heap.as<float>(), 64), out(heap.as<float>(), 64)).ok());
    fake.reset();
  });
}

TEST_F(Gpu, AContextMayCloseWhileACopyIsHeld) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  GpuArray<float> x(64, 0), y(64, 0);
  void* const stream = fake.stream(0);
  fake.hold(stream);
  run_job(1, [&](Context& context) {
    Result<Handle> handle = context.start(sum_of(x, y, 64, stream));
    ASSERT_TRUE(handle.ok());
  });
  fake.release(stream);
  EXPECT_EQ(fake.queued(), 0);
}

}  // namespace
}  // namespace weft
