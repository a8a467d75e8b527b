// What `weft selftest` checks: transports, each over devices of this machine. Values and pure
// functions only.
#pragma once

#include <string>
#include <vector>

#include "verbs/device/device.h"

namespace weft {

// As typed on the command line.
struct SelftestArguments {
  std::string transport{};    // empty: all that can be used
  std::string device{};       // empty: each that can be used
  std::string peer_device{};  // empty: the same
  std::vector<std::string> filter{};
  double seconds = 120;  // of one check
  bool list = false;
  bool json = false;
};

// A transport over a device, or why it is left out.
struct SelftestTarget {
  std::string transport;
  std::string device{};       // "mlx5_0:1", "eth0"; empty: it needs none
  std::string peer_device{};  // of the other end of every wire
  std::string left_out{};     // why it is not checked; empty: it is

  // "ib mlx5_0:1 - mlx5_1:1".
  [[nodiscard]] std::string text() const;
};

// `invalid_argument` names the option that makes no sense; `unavailable` a device that is not there
// or cannot be used, beside those that can.
[[nodiscard]] Result<std::vector<SelftestTarget>> selftest_targets(
    const SelftestArguments& asked, const std::vector<RdmaPort>& ports,
    const std::vector<NetworkInterface>& interfaces);

}  // namespace weft
