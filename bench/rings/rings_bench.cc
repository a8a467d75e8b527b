// What the rings cost without a wire: a notice from one rank to another of the same thread (post,
// look, release), and a record in the trace's ring, on and off.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/trace/trace.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

constexpr std::uint32_t kChannel = 1;

// Two interfaces, each connected to the other.
struct Pair {
  Pair() {
    const auto open = [this](Rank rank) {
      return open_shm(rank, InterfaceOptions{}, [this](Rank peer) -> Result<std::string> {
        return interfaces[peer]->address();
      });
    };
    for (Rank rank = 0; rank < 2; ++rank) interfaces[rank] = open(rank).value();
    for (Rank rank = 0; rank < 2; ++rank) {
      endpoints[rank] =
          interfaces[rank]->connect(1 - rank, interfaces[1 - rank]->address()).value();
    }
  }
  std::unique_ptr<Interface> interfaces[2];
  Endpoint* endpoints[2] = {};
};

void notice(benchmark::State& state) {
  Pair pair;
  const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)));
  WireHeader header;
  header.kind = NoticeKind::data;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pair.endpoints[0]->post_notice(kChannel, header, payload));
    benchmark::DoNotOptimize(pair.endpoints[1]->front(kChannel));
    pair.endpoints[1]->release(kChannel);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(notice)->Arg(0)->Arg(64)->Arg(1024)->Arg(4032);

void trace_record(benchmark::State& state) {
  Trace trace(state.range(0) != 0 ? kTraceRecords : 0);
  TraceRing& ring = trace.add_lane("bench");
  std::uint32_t operation = 0;
  for (auto _ : state) ring.add(Event::send_posted, ++operation, 1);
}
BENCHMARK(trace_record)->Arg(0)->Arg(1);

}  // namespace
}  // namespace weft
