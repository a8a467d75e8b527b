// What `weft perf wire` was asked to measure, understood and checked before anything is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"
#include "verbs/base/base.h"

namespace weft {

enum class WireOp : std::uint8_t { write, read, notice, atomic };

// "write", …, as on the command line.
[[nodiscard]] std::string_view name(WireOp op);

// As typed on the command line.
struct WireArguments {
  std::string op = "write";
  std::string sizes{};  // empty: what suits the operation
  int depth = 0;        // 0: what suits the operation
  int list = 1;
  std::string transport{};  // empty: as the settings say, without any ib
  std::string device{};
  std::string peer_device{};  // empty: the same
  std::string peer{};
  std::string listen{};
  double seconds = 1;  // of each size, all rounds
  int rounds = 7;
  std::string json{};
  std::string against{};
};

// A device and its port, "rx_h0r0" or "mlx5_0:2".
struct WireDevice {
  std::string name;
  int port = 1;
};

struct WireOptions {
  WireOp op = WireOp::write;
  std::vector<std::size_t> sizes;
  std::uint32_t depth = 1;  // operations under way
  std::uint32_t list = 1;   // posted before the transport hands them to the device
  WireDevice device;
  WireDevice peer_device;
  bool over_ucx = false;
  bool against_perftest = false;
  std::optional<Address> listen;  // be the side that follows, here
  std::optional<Address> peer;    // lead the side that listens there; neither: both sides are here
  WireArguments asked;

  // One operation at a time: what is told is its time. Write and notice are then answered by the
  // peer with the same, and half of the round trip counts.
  [[nodiscard]] bool is_latency() const { return depth == 1; }
  [[nodiscard]] bool is_ping_pong() const {
    return is_latency() && (op == WireOp::write || op == WireOp::notice);
  }
};

// Gives `asked` the transport and the device of the user's settings where none was typed. Returns a line
// for each setting that an option overrides.
[[nodiscard]] std::vector<std::string> fit_settings(WireArguments& asked, const Config& config);

// Everything understood, or an invalid_argument that names the option.
[[nodiscard]] Result<WireOptions> understand(const WireArguments& asked);

}  // namespace weft
