// What one path carries: the round trip of 8 bytes and the stream of pieces, between two processes
// of this machine over a ucx interface. One JSON line per measurement, medians of several laps;
// measured next to ucx_perftest's ucp_am_lat and ucp_am_bw of the same device.
//
// usage: bench_wire [DEVICE [PIECE_BYTES [SLOTS]]]
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

constexpr std::int64_t kPatienceMs = 60'000;
constexpr std::uint32_t kChannel = 1;
constexpr int kLaps = 11;

// What the two processes share before they can talk.
struct Meeting {
  std::atomic<std::size_t> bytes[2];
  char address[2][kAddressBytes];
};

struct Side {
  Rank self;
  Interface& interface;
  Endpoint& peer;
};

template <typename Predicate>
void wait_for(Interface& interface, Predicate done) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!done()) {
    interface.progress();
    invariant(!deadline.passed(), "the other side went away");
  }
}

void post(const Side& side, std::span<const std::byte> payload) {
  wait_for(side.interface,
           [&] { return side.peer.post_piece(kChannel, WireHeader{}, payload) == Posted::posted; });
}

void take(const Side& side) {
  wait_for(side.interface, [&] { return side.peer.front(kChannel).header != nullptr; });
  side.peer.release(kChannel);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// Half of a round trip, as ucx_perftest counts it.
void ping_pong(const Side& side) {
  constexpr int kRounds = 2'000;
  std::vector<double> microseconds;
  for (int lap = 0; lap < kLaps; ++lap) {
    const std::int64_t start = now_ns();
    for (int round = 0; round < kRounds; ++round) {
      if (side.self == 0) post(side, {});
      take(side);
      if (side.self == 1) post(side, {});
    }
    microseconds.push_back(static_cast<double>(now_ns() - start) / 2e3 / kRounds);
  }
  if (side.self == 0)
    fmt::print("{{\"op\": \"ping_pong\", \"bytes\": 8, \"p50_us\": {:.2f}}}\n",
               median(microseconds));
}

// From the first post to the last release.
void stream(const Side& side, std::size_t message_bytes) {
  const std::size_t piece = std::min(message_bytes, side.interface.piece_bytes());
  const std::size_t messages = std::max<std::size_t>((std::size_t{256} << 20) / message_bytes, 8);
  const std::size_t pieces = messages * (message_bytes / piece);
  const std::vector<std::byte> source(piece, std::byte{1});
  std::vector<double> microseconds;
  for (int lap = 0; lap < kLaps; ++lap) {
    const std::int64_t start = now_ns();
    for (std::size_t n = 0; n < pieces; ++n) side.self == 0 ? post(side, source) : take(side);
    wait_for(side.interface,
             [&] { return side.peer.released(kChannel) == side.peer.posted(kChannel); });
    microseconds.push_back(static_cast<double>(now_ns() - start) / 1e3);
  }
  if (side.self != 0) return;
  const double us = median(microseconds);
  fmt::print("{{\"op\": \"stream\", \"bytes\": {}, \"p50_us\": {:.1f}, \"GBps\": {:.3f}}}\n",
             message_bytes, us / static_cast<double>(messages),
             static_cast<double>(pieces * piece) / us / 1e3);
}

Status run(Rank self, Meeting& meeting, const InterfaceOptions& options, const UcxOptions& ucx) {
  const auto nobody = [](Rank peer) -> Result<std::string> {
    return Status(Code::unavailable, "there is no third rank", peer);
  };
  WEFT_ASSIGN(const std::unique_ptr<Interface> interface, open_ucx(self, options, ucx, nobody));
  const std::string own = interface->address();
  std::memcpy(meeting.address[self], own.data(), own.size());
  meeting.bytes[self].store(own.size());
  const Rank other = 1 - self;
  wait_for(*interface, [&] { return meeting.bytes[other].load() != 0; });
  WEFT_ASSIGN(Endpoint * peer,
              interface->connect(other, {meeting.address[other], meeting.bytes[other].load()}));
  const Side side{self, *interface, *peer};
  ping_pong(side);
  for (const std::size_t mib : {1, 4, 16}) stream(side, mib << 20);
  ping_pong(side);
  return {};
}

int run_side(Rank self, Meeting& meeting, const InterfaceOptions& options, const UcxOptions& ucx) {
  const Status status = run(self, meeting, options, ucx);
  if (!status.ok()) log(LogLevel::error, status.to_string());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  InterfaceOptions options;
  options.slots = 16;  // as the engine's rails
  UcxOptions ucx{.device = argc > 1 ? argv[1] : "lo"};
  if (argc > 2) ucx.piece_bytes = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3) options.slots = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  void* memory =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* meeting = new (memory) Meeting{};
  const pid_t child = fork();
  if (child == 0) _exit(run_side(1, *meeting, options, ucx));
  const int own = run_side(0, *meeting, options, ucx);
  int other = 0;
  waitpid(child, &other, 0);
  return own != 0 || other != 0 ? 1 : 0;
}
