// Turns of interfaces whose one peer is silent.
#include "tools/weft/perf/turn.h"

#include "tools/limits/limits.h"
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

using Opened = Result<std::unique_ptr<Interface>>;

// A notice from one end to the other: a network polls only what is connected.
Status connect(Interface& one, Interface& other) {
  constexpr std::uint32_t kChannel = 1;
  constexpr std::int64_t kPatienceMs = 1000;
  WEFT_ASSIGN(Endpoint* const to, one.connect(1, other.address()));
  WEFT_ASSIGN(Endpoint* const from, other.connect(0, one.address()));
  bool is_posted = false;
  for (const Deadline end = Deadline::after_ms(kPatienceMs); from->arrived(kChannel) == 0;) {
    if (end.passed()) return {Code::unavailable, "two interfaces of one device do not connect"};
    is_posted = is_posted || to->post_notice(kChannel, {}, {}) == Posted::posted;
    (void)one.progress();
    (void)other.progress();
  }
  from->release(kChannel);
  (void)other.progress();
  return {};
}

Result<double> connected_turn_ns(const Opened& one, const Opened& other) {
  for (const Opened* opened : {&one, &other})
    if (!opened->ok()) return opened->status();
  WEFT_RETURN_IF_ERROR(connect(**one, **other));
  return turn_ns(**one);
}

IdleTurn turn_of(std::string transport, const Opened& one, const Opened& other) {
  const Result<double> ns = connected_turn_ns(one, other);
  for (const Opened* opened : {&one, &other})
    if (opened->ok()) (**opened)->close();
  if (ns.ok()) return {std::move(transport), *ns, {}};
  return {std::move(transport), 0, std::string(ns.status().text())};
}

}  // namespace

std::vector<IdleTurn> idle_turns() {
  const std::vector<RdmaPort> ports = rdma_ports();
  const WireDevice port =
      ports.empty() ? WireDevice() : WireDevice{ports.front().device, ports.front().port};
  return {turn_of("ucx", open_wire_ucx(0, {}, {"lo"}), open_wire_ucx(1, {}, {"lo"})),
          turn_of("ib", open_wire_ib(0, {}, port), open_wire_ib(1, {}, port))};
}

}  // namespace weft
