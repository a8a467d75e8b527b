// Which transports and devices `weft selftest` takes, and what it says of those that it does not.
#include <gtest/gtest.h>

#include "tools/weft/selftest/targets.h"

namespace weft {
namespace {

RdmaPort rdma_port(const std::string& device, int number, bool usable) {
  RdmaPort port;
  port.device = device;
  port.port = number;
  port.usable = usable;
  port.reason = usable ? "is active" : "state is DOWN";
  return port;
}

NetworkInterface interface(const std::string& name, const std::string& kind, bool usable,
                           const std::string& ip) {
  NetworkInterface found;
  found.name = name;
  found.kind = kind;
  found.usable = usable;
  found.ip = ip;
  found.reason = usable ? "is up" : "is down";
  return found;
}

const std::vector<RdmaPort> kPorts = {rdma_port("mlx5_0", 1, true), rdma_port("mlx5_0", 2, false),
                                      rdma_port("mlx5_1", 1, true)};
const std::vector<NetworkInterface> kInterfaces = {
    interface("eth0", "ethernet", true, "10.0.0.1/24"), interface("eth1", "ethernet", false, ""),
    interface("lo", "loopback", false, "127.0.0.1/8")};

std::vector<std::string> texts(const SelftestArguments& asked) {
  const auto targets = selftest_targets(asked, kPorts, kInterfaces);
  if (!targets.ok()) return {targets.status().to_string()};
  std::vector<std::string> all;
  for (const SelftestTarget& target : *targets)
    all.push_back(target.text() + (target.left_out.empty() ? "" : ": " + target.left_out));
  return all;
}

using Texts = std::vector<std::string>;

TEST(SelftestTargets, EverythingUsableEachAgainstItself) {
  EXPECT_EQ(texts({}), (Texts{"shm", "ib mlx5_0:1", "ib mlx5_1:1", "ucx eth0"}));
  EXPECT_EQ(texts({.transport = "ib"}), (Texts{"ib mlx5_0:1", "ib mlx5_1:1"}));
  EXPECT_EQ(texts({.transport = "shm"}), (Texts{"shm"}));
}

TEST(SelftestTargets, NamedDevices) {
  EXPECT_EQ(texts({.transport = "ib", .device = "mlx5_0", .peer_device = "mlx5_1:1"}),
            (Texts{"ib mlx5_0:1 - mlx5_1:1"}));
  EXPECT_EQ(texts({.transport = "ucx", .device = "lo"}), (Texts{"ucx lo"}))
      << "the loopback is for who asks for it";
}

TEST(SelftestTargets, WithoutDevicesTransportsAreLeftOutAndSayWhy) {
  const auto targets = selftest_targets({}, {kPorts[1]}, {kInterfaces[1]});
  ASSERT_TRUE(targets.ok());
  ASSERT_EQ(targets->size(), 3U);
  EXPECT_EQ((*targets)[0].left_out, "");
  EXPECT_EQ((*targets)[1].left_out, "mlx5_0:2: state is DOWN");
  EXPECT_EQ((*targets)[2].left_out, "eth1: is down");
  const auto none = selftest_targets({}, {}, {});
  ASSERT_TRUE(none.ok());
  EXPECT_NE((*none)[1].left_out, "");
  EXPECT_NE((*none)[2].left_out, "");
}

TEST(SelftestTargets, ErrorsNameTheOptionAndTheDevices) {
  const auto expect_error = [](const SelftestArguments& asked, Code code, const char* text) {
    const Status status = selftest_targets(asked, kPorts, kInterfaces).status();
    EXPECT_EQ(status.code(), code) << text;
    EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
  };
  expect_error({.transport = "x"}, Code::invalid_argument, "--transport x");
  expect_error({.device = "eth0"}, Code::invalid_argument, "--device eth0");
  expect_error({.transport = "shm", .device = "eth0"}, Code::invalid_argument, "--device eth0");
  expect_error({.transport = "ib", .peer_device = "a"}, Code::invalid_argument, "--peer-device a");
  expect_error({.transport = "ib", .device = "mlx4_0"}, Code::unavailable,
               "--device mlx4_0: there is no such device for ib; there are: mlx5_0:1, mlx5_0:2");
  expect_error({.transport = "ib", .device = "mlx5_0:2"}, Code::unavailable, "state is DOWN");
  expect_error({.transport = "ib", .device = "mlx5_0", .peer_device = "mlx5_0:2"},
               Code::unavailable, "--peer-device mlx5_0:2");
  expect_error({.transport = "ucx", .device = "eth1"}, Code::unavailable, "is down");
  EXPECT_EQ(selftest_targets({.transport = "ib"}, {kPorts[1]}, {}).status().text(),
            "--transport ib: mlx5_0:2: state is DOWN");
}

}  // namespace
}  // namespace weft
