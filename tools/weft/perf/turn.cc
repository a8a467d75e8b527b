// Turns of interfaces that have neither peers nor work.
#include "tools/weft/perf/turn.h"

#include "engine/limits/limits.h"
#include "tools/weft/common/rdma_ports.h"
#include "tools/weft/wire/side.h"

namespace weft {
namespace {

double turn_ns(Interface& interface) {
  constexpr int kTurns = 10'000;
  constexpr int kRepeats = 7;
  std::vector<double> samples;
  for (int i = 0; i < kRepeats; ++i) {
    const std::int64_t begin = now_ns();
    for (int turn = 0; turn < kTurns; ++turn) (void)interface.progress();
    samples.push_back(static_cast<double>(now_ns() - begin) / kTurns);
  }
  return median(std::move(samples));
}

IdleTurn turn_of(std::string transport, const Result<std::unique_ptr<Interface>>& opened) {
  if (!opened.ok()) return {std::move(transport), 0, std::string(opened.status().text())};
  IdleTurn turn{std::move(transport), turn_ns(**opened), {}};
  (*opened)->close();
  return turn;
}

}  // namespace

std::vector<IdleTurn> idle_turns() {
  const std::vector<RdmaPort> ports = rdma_ports();
  const WireDevice port =
      ports.empty() ? WireDevice() : WireDevice{ports.front().device, ports.front().port};
  return {turn_of("ucx", open_wire_ucx(0, {}, {"lo"})), turn_of("ib", open_wire_ib(0, {}, port))};
}

}  // namespace weft
