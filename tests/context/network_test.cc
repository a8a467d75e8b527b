// The same operations where ranks do not share memory: over UCX on the loopback, alone and beside
// shared memory. The ranks call themselves different machines.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/context/cluster.h"
#include "tests/context/outcomes.h"
#include "verbs/device/device.h"

namespace weft {
namespace {

float value_of(Rank rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 31 + i * 7) % 97) / 8;
}

void expect_average(Context& context, std::size_t count, bool foreign) {
  Array<float> x(count, foreign), y(count, foreign);
  for (std::size_t i = 0; i < count; ++i) x[i] = value_of(context.rank(), i);
  const Status status = context.neighbor_allreduce(in(x.data(), count), out(y.data(), count));
  ASSERT_TRUE(status.ok()) << status.to_string();
  const LocalView view = context.graph().local_view(context.rank());
  const auto average = [&](std::size_t i) {
    double sum = value_of(context.rank(), i);
    for (const Peer& peer : view.in) sum += value_of(peer.rank, i);
    return sum / static_cast<double>(view.in.size() + 1);
  };
  ASSERT_TRUE(holds(y.data(), count, average, 1e-4));
}

TEST(Network, NeighborsAverageOverUcxAlone) {
  run_cluster(4, 4, [](Context& context) {
    for (const std::size_t count : {0UL, 1UL, 2UL, 1001UL, 5000UL, 70'001UL, 700'003UL}) {
      expect_average(context, count, false);
      expect_average(context, count, true);
    }
    EXPECT_NE(context.explain().find("ucx:lo"), std::string::npos) << context.explain();
    EXPECT_NE(context.explain().find("carried in pieces"), std::string::npos);
  });
}

TEST(Network, AndOverSharedMemoryBeside) {
  run_cluster(6, 2, [](Context& context) {
    for (const std::size_t count : {1UL, 1001UL, 5000UL, 70'001UL, 700'003UL}) {
      expect_average(context, count, false);
      expect_average(context, count, true);
    }
    const std::string text = context.explain();
    EXPECT_NE(text.find("ucx:lo"), std::string::npos) << text;
    EXPECT_NE(text.find(": shm"), std::string::npos) << text;
  });
}

TEST(Network, AllreduceByEveryAlgorithm) {
  run_cluster(4, 4, [](Context& context) {
    for (const AllreduceAlgorithm algorithm :
         {AllreduceAlgorithm::direct, AllreduceAlgorithm::split, AllreduceAlgorithm::ring,
          AllreduceAlgorithm::halving_doubling}) {
      for (const std::size_t count : {1UL, 77UL, 100'001UL}) {
        Array<double> x(count, false);
        for (std::size_t i = 0; i < count; ++i)
          x[i] = static_cast<double>(context.rank()) + static_cast<double>(i);
        const Status status = context.allreduce(in(x.data(), count), out(x.data(), count),
                                                ReduceOp::average, algorithm);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_TRUE(holds(x.data(), count, [&](std::size_t i) {
          return 1.5 + static_cast<double>(i);
        })) << name(algorithm);
      }
    }
  });
}

TEST(Network, BlocksOfManyMorePiecesThanSlots) {
  Config config = test_config();
  config.rail_slots = 2;
  run_cluster(
      4, 4,
      [](Context& context) {
        constexpr std::size_t kCount = 5'000'000;  // a block is five pieces
        Array<float> x(kCount, false), y(kCount, false);
        for (std::size_t i = 0; i < kCount; ++i)
          x[i] = static_cast<float>(i % 1013) + static_cast<float>(context.rank());
        const Status status =
            context.allreduce(in(x.data(), kCount), out(y.data(), kCount), ReduceOp::max);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_TRUE(holds(y.data(), kCount,
                          [&](std::size_t i) { return static_cast<float>(i % 1013) + 3.0F; }));
      },
      config);
}

TEST(Network, ManyOperationsInFlight) {
  run_cluster(3, 3, [](Context& context) {
    constexpr std::size_t kOperations = 200, kCount = 1024;
    Array<float> x(kCount, false), y(kOperations * kCount, false);
    for (std::size_t i = 0; i < kCount; ++i) x[i] = value_of(context.rank(), i);
    std::vector<Handle> handles;
    for (std::size_t k = 0; k < kOperations; ++k) {
      Result<Handle> handle = context.neighbor_allreduce_start(in(x.data(), kCount),
                                                               out(y.data() + k * kCount, kCount));
      ASSERT_TRUE(handle.ok()) << handle.status().to_string();
      handles.push_back(*handle);
    }
    for (Handle& handle : handles) ASSERT_TRUE(handle.wait().ok());
    for (std::size_t k = 1; k < kOperations; ++k) {
      ASSERT_TRUE(holds(y.data() + k * kCount, kCount, [&](std::size_t i) { return y[i]; }));
    }
  });
}

TEST(Network, MismatchesAreErrorsOnBothSides) {
  std::vector<Status> statuses(2);
  run_cluster(2, 2, [&](Context& context) {
    const std::size_t count = context.rank() == 0 ? 100'000 : 300'000;
    Array<float> x(count, false), y(count, false);
    statuses[static_cast<std::size_t>(context.rank())] =
        context.neighbor_allreduce(in(x.data(), count), out(y.data(), count));
  });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_NE(status.text().find("bytes"), std::string_view::npos) << status.to_string();
  }
}

TEST(Network, ARankThatLeavesIsNamed) {
  std::vector<Status> statuses(2);
  run_cluster(2, 2, [&](Context& context) {
    expect_average(context, 10, false);
    if (context.rank() == 1) return;
    float x = 1, y = 0;
    statuses[0] = context.neighbor_allreduce(in(&x, 1), out(&y, 1));
  });
  EXPECT_EQ(statuses[0].code(), Code::peer_left) << statuses[0].to_string();
  EXPECT_EQ(statuses[0].rank(), 1);
}

TEST(Network, WithoutOneConnectingSaysWhy) {
  Config config = test_config();
  config.transports = {.automatic = false, .shm = true};
  std::vector<Status> statuses(2);
  run_cluster(
      2, 2,
      [&](Context& context) {
        float x = 1, y = 0;
        statuses[static_cast<std::size_t>(context.rank())] =
            context.neighbor_allreduce(in(&x, 1), out(&y, 1));
      },
      config);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::unavailable) << status.to_string();
    EXPECT_NE(status.text().find("another machine"), std::string_view::npos) << status.to_string();
    EXPECT_NE(status.text().find("WEFT_TRANSPORTS"), std::string_view::npos) << status.to_string();
  }
}

TEST(Network, AnInterfaceThatIsNotThereIsNamed) {
  Config config = test_config();
  config.transports = {.automatic = false, .shm = true, .ucx = true};
  config.interfaces = "lo,no-such0";
  Result<std::vector<std::shared_ptr<Store>>> stores = make_local_stores(1);
  ASSERT_TRUE(stores.ok());
  const Result<std::unique_ptr<Context>> context = Context::create(config, stores->front());
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.status().code(), Code::unavailable);
  EXPECT_NE(context.status().text().find("no-such0"), std::string_view::npos);
  EXPECT_NE(context.status().text().find("lo"), std::string_view::npos);
}

// What a context says to a file about its machine.
Status with_hardware(const std::string& text, Config config = test_config()) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("hardware-{}.toml", getpid());
  std::ofstream(file) << text;
  config.transports = {.automatic = false, .shm = true, .ucx = true};
  config.hardware = file;
  const Result<std::vector<std::shared_ptr<Store>>> stores = make_local_stores(1);
  EXPECT_TRUE(stores.ok());
  const Result<std::unique_ptr<Context>> context = Context::create(config, stores->front());
  std::filesystem::remove(file);
  return context.status();
}

TEST(Network, MistakesAboutTheMachineAreTold) {
  expect_names(with_hardware("[[nic]]\nname = \"x\"\nspeed = 3\n"), Code::invalid_argument,
               {"hardware-", ".toml:3", "speed"});
  Config config = test_config();
  config.interfaces = "lo";
  EXPECT_TRUE(with_hardware("", config).ok());
  config.gpu = 7;
  expect_names(with_hardware("[[gpu]]\nindex = 6\n", config), Code::invalid_argument,
               {"WEFT_GPU=7", "GPUs up to 6"});
  Config missing = test_config();
  missing.transports = {.automatic = false, .shm = true, .ucx = true};
  missing.hardware = "/no/such/file.toml";
  const auto stores = make_local_stores(1);
  expect_names(Context::create(missing, stores->front()).status(), Code::system,
               {"/no/such/file.toml"});
}

// The first interface that could be used.
TEST(Network, AnInterfaceThatIsSaidToBeAbsentIsNotUsed) {
  const std::vector<NetworkInterface> all = discover_interfaces();
  const auto usable = std::ranges::find_if(
      all, [](const NetworkInterface& each) { return each.usable && !each.ip.empty(); });
  if (usable == all.end()) GTEST_SKIP() << "no network interface is up";
  Config config = test_config();
  config.interfaces = usable->name;
  const std::string absent = "[[nic]]\nname = \"" + usable->name + "\"\nabsent = true\n";
  EXPECT_TRUE(with_hardware("", config).ok());
  expect_names(with_hardware(absent, config), Code::invalid_argument,
               {"WEFT_INTERFACES", usable->name.c_str(), "absent"});
}

TEST(Network, AllInterfacesCannotBeAbsent) {
  std::string absent;
  for (const NetworkInterface& each : discover_interfaces()) {
    if (each.usable && !each.ip.empty())
      absent += "[[nic]]\nname = \"" + each.name + "\"\nabsent = true\n";
  }
  if (absent.empty()) GTEST_SKIP() << "no network interface is up";
  expect_names(with_hardware(absent, test_config()), Code::unavailable,
               {"says that all network interfaces are absent"});
}

// Of the settings of messages, whatever the others are.
TEST(Network, AveragesAtTheBoundsOfSettings) {
  struct Bound {
    int eager_bytes, piece_bytes, channels, slots;
  };
  for (const Bound bound : {Bound{64, 0, 61, 2}, {65, 4096, 1, 256}, {16'384, 4096, 8, 8}}) {
    Config config = test_config();
    config.eager_bytes = bound.eager_bytes;
    config.piece_bytes = bound.piece_bytes;
    config.channels = bound.channels;
    config.slots = bound.slots;
    for (const int machines : {1, 3}) {
      run_cluster(
          3, machines,
          [](Context& context) {
            for (const std::size_t count : {1UL, 5UL, 15UL, 17UL, 1001UL, 3072UL, 70'001UL})
              expect_average(context, count, count % 2 == 0);
          },
          config);
    }
  }
}

}  // namespace
}  // namespace weft
