// WireSide: one of the two processes that `weft perf wire` measures between. It has an interface, a
// connection to the other side, memory that the other one writes, reads and swaps, and the line
// over which both agree. Used by its one thread.
#pragma once

#include <memory>

#include "engine/config/config.h"
#include "tools/weft/wire/line.h"
#include "tools/weft/wire/options.h"
#include "tools/weft/wire/wait.h"
#include "verbs/device/device.h"
#include "verbs/progress/progress.h"
#include "verbs/transport/transport.h"

namespace weft {

inline constexpr std::uint32_t kWireChannel = 1;

// What rank 0 wants and rank 1 opens its interface for.
struct WirePlan {
  std::uint32_t magic = 0x57495232;  // "WIR2"; the last digit counts changes of what is said
  WireOp op = WireOp::write;
  bool over_ucx = false;
  std::uint32_t depth = 1;
  std::uint64_t most_bytes = 0;
};

// How the two ports reach each other: what a peer's measurement has to be told.
struct WirePath {
  WireDevice device;    // ours
  int gid_index = -1;   // -1: none needed
  int mtu = 0;          // the smaller of both ports'; 0: not known
  int mbit_per_s = -1;  // of our port; -1: not known
  int service_level = 0;
  int traffic_class = 0;
  int timeout = 18;  // WEFT_IB_TIMEOUT
};

class WireSide {
 public:
  // The line is of use to say why it failed, so it stays the caller's.
  static Result<std::unique_ptr<WireSide>> open(Rank self, const WirePlan& plan,
                                                const WireDevice& device, Line& line,
                                                const Config& config);
  WireSide(const WireSide&) = delete;
  WireSide& operator=(const WireSide&) = delete;
  ~WireSide();

  [[nodiscard]] Rank self() const { return self_; }
  [[nodiscard]] Interface& interface() { return *interface_; }
  [[nodiscard]] Endpoint& peer() { return *peer_; }
  [[nodiscard]] Line& line() { return line_; }
  [[nodiscard]] const WirePath& path() const { return path_; }
  // How to wait: as two ranks of this machine do.
  [[nodiscard]] const WirePatience& patience() const { return patience_; }
  // The other side's target().
  [[nodiscard]] RemoteBuffer remote(std::size_t bytes) const {
    return {remote_.form, remote_.word, bytes};
  }
  [[nodiscard]] std::byte* target() { return target_; }
  // What this side sends from and reads into.
  [[nodiscard]] std::byte* source() { return source_; }
  // The number of the last ping-pong, as its last byte tells it; both sides count alike.
  std::uint8_t& turn() { return turn_; }

  // Hears the other side while our interface answers it: asleep, because who is only written to
  // must not cost the measurement a core. `work_ms`: how long the other side works before it tells.
  template <class T>
  Result<T> hear(std::string_view what, std::int64_t work_ms = 0) {
    return line_.hear_value<T>(what, Deadline::after_ms(work_ms + patience_.deadline_ms),
                               [this](int fd) { nap(fd); });
  }

 private:
  struct Hello;
  WireSide(Rank self, Line& line) : self_(self), line_(line) {}
  Status take_memory(std::size_t bytes);
  Status meet(const WirePlan& plan, const std::vector<RdmaGid>& gids, int mtu);
  void nap(int fd);

  Rank self_;
  Line& line_;
  std::byte* target_ = nullptr;
  std::byte* source_ = nullptr;
  std::unique_ptr<Interface> interface_;
  Endpoint* peer_ = nullptr;  // of the interface
  RemoteBuffer remote_;
  WirePath path_;
  WirePatience patience_;
  std::uint8_t turn_ = 0;
};

// The transports that the build has; `unavailable` where one is absent.
Result<std::unique_ptr<Interface>> open_wire_ib(Rank self, const InterfaceOptions& options,
                                                const WireDevice& device);
Result<std::unique_ptr<Interface>> open_wire_ucx(Rank self, const InterfaceOptions& options,
                                                 const WireDevice& device);

}  // namespace weft
