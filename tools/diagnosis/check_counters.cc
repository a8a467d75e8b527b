// Counters of links between two looks.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

struct Counter {
  std::string_view name, meaning, mend;
  Severity severity;
};

constexpr std::string_view kCable =
    "another cable or module; mlxlink -d DEVICE -m and ethtool -m INTERFACE show its light";
constexpr std::string_view kLoss =
    "PFC and ECN on hosts and switches alike (mlnx_qos, ethtool -S INTERFACE | grep -E "
    "'pause|discard')";
constexpr std::array kCounters{
    Counter{"link_downed", "the link went down", kCable, Severity::severe},
    Counter{"carrier_down_count", "the carrier was lost", kCable, Severity::severe},
    Counter{"link_error_recovery", "the link recovered from errors", kCable, Severity::severe},
    Counter{"symbol_error", "symbols arrived damaged", kCable, Severity::warning},
    Counter{"local_link_integrity_errors", "the link's errors exceeded its bound", kCable,
            Severity::warning},
    Counter{"rx_crc_errors", "frames arrived damaged", kCable, Severity::warning},
    Counter{"rx_icrc_encapsulated", "RDMA packets arrived damaged", kCable, Severity::warning},
    Counter{"port_rcv_errors", "packets arrived damaged", kCable, Severity::warning},
    Counter{"port_xmit_discards", "packets were dropped before they left", kLoss,
            Severity::warning},
    Counter{"out_of_sequence", "packets were lost on the way here", kLoss, Severity::warning},
    Counter{"packet_seq_err", "packets were lost on the way to a peer", kLoss, Severity::warning},
    Counter{"local_ack_timeout_err", "peers did not acknowledge in time", kLoss, Severity::warning},
};

std::string time_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.0f} minutes", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{:.0f} hours", seconds / kHour);
  return fmt::format("{:.0f} days", seconds / kDay);
}

// A counter that is absent on one side, or that began anew, has not grown.
std::int64_t growth(const Look& before, const Look& now, const std::string& nic,
                    std::string_view name) {
  const auto of = [&](const Look& look) -> std::int64_t {
    const auto counters = look.counters.find(nic);
    if (counters == look.counters.end()) return -1;
    const auto count = counters->second.find(std::string(name));
    return count == counters->second.end() ? -1 : count->second;
  };
  const std::int64_t first = of(before), last = of(now);
  return first < 0 || last < 0 ? 0 : std::max<std::int64_t>(last - first, 0);
}

std::string with_names(std::string_view mend, const NicFacts& nic) {
  std::string text(mend);
  const auto replace = [&text](std::string_view word, const std::string& name) {
    const std::size_t at = text.find(word);
    if (at != std::string::npos && !name.empty()) text.replace(at, word.size(), name);
  };
  replace("DEVICE", nic.rdma);
  replace("INTERFACE", nic.netdev);
  return text;
}

}  // namespace

void check_errors(const HostFacts& facts, Report& report) {
  if (facts.before.at_ns == 0 || facts.now.at_ns <= facts.before.at_ns) return;
  constexpr double kNanosecond = 1e-9;
  const double seconds = static_cast<double>(facts.now.at_ns - facts.before.at_ns) * kNanosecond;
  for (const NicFacts& nic : facts.nics) {
    for (const Counter& counter : kCounters) {
      const std::int64_t grown = growth(facts.before, facts.now, nic.name, counter.name);
      if (grown == 0) continue;
      const bool is_port = !nic.rdma.empty() && counter.name != "carrier_down_count" &&
                           counter.name != "rx_crc_errors";
      report.add(
          counter.severity, {facts.host}, fmt::format("{}: {}", nic.name, counter.meaning),
          fmt::format("{} {} of {} grew by {} in {}", is_port ? "port counter" : "counter",
                      counter.name, is_port ? nic.rdma : nic.netdev, grown, time_text(seconds)),
          with_names(counter.mend, nic));
    }
  }
}

}  // namespace weft::diagnosis
