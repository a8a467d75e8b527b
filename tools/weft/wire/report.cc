// Columns and keys of `weft perf wire`.
#include "tools/weft/wire/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/limits/limits.h"
#include "tools/weft/common/bytes.h"

namespace weft {
namespace {

constexpr double kMib = 1 << 20;
constexpr double kGib = 1 << 30;

template <class Value>
double median_of(const WireRow& row, Value value) {
  std::vector<double> values;
  for (const WireLap& lap : row.laps) values.push_back(value(lap));
  return median(std::move(values));
}

template <class Value>
double median_of_peers(const WireRow& row, Value value) {
  std::vector<double> values;
  for (const PerftestFigure& peer : row.peers) values.push_back(value(peer));
  return median(std::move(values));
}

}  // namespace

struct WireReport::Figures {
  double peak_mib = 0;
  double average_mib = 0;
  double mpps = 0;
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double cpu_s_per_gib = 0;
  double share = 0;  // of the line; 0: its rate is not known
  double peer = 0;   // MiB/s, or microseconds
  // Ours / theirs: the median of the rounds, and between what half of them lie.
  double ratio = 0;
  double lower_quartile = 0;
  double upper_quartile = 0;
};

double average_mib(const WireRow& row, const WireLap& lap) {
  return static_cast<double>(row.bytes) * static_cast<double>(lap.us.size()) / lap.seconds / kMib;
}

std::vector<double> wire_ratios(const WireRow& row, bool is_latency) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.peers.size(); ++i) {
    ratios.push_back(is_latency ? median(row.laps[i].us) / row.peers[i].typical_us
                                : average_mib(row, row.laps[i]) / row.peers[i].average_mib);
  }
  return ratios;
}

Result<WireReport> WireReport::open(const WireOptions& options, const WirePath& path) {
  WEFT_ASSIGN(Rows rows, Rows::open(options.asked.json));
  return WireReport(options, path, std::move(rows));
}

Status WireReport::head() const {
  std::string text = fmt::format("{} over {}, {} under way, lists of {}", name(options_.op),
                                 path_.device.name, options_.depth, options_.list);
  if (path_.mtu > 0) text += fmt::format(", packets of {} bytes", path_.mtu);
  if (options_.is_ping_pong()) text += "; times are half of a round trip";
  if (path_.mbit_per_s > 0) {
    text += fmt::format("; line: {} Gbit/s as the port says (Soft-RoCE: a constant)",
                        path_.mbit_per_s / 1000.0);
  }
  text += fmt::format("\n{:>6} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}", "bytes",
                      "iters", "peak MB/s", "avg MB/s", "Mpps", "p50 us", "p99 us", "p99.9 us",
                      "CPU s/GiB", "line");
  if (options_.against_perftest) {
    text +=
        fmt::format(" {:>14} {:>6} {:>10}", options_.is_latency() ? "perftest us" : "perftest MB/s",
                    "ratio", "half in");
  }
  return rows_.text(text + '\n');
}

Status WireReport::row(const WireRow& row) const {
  WEFT_RETURN_IF_ERROR(rows_.text(text(row) + '\n'));
  return rows_.json(json(row));
}

WireReport::Figures WireReport::figures(const WireRow& row) const {
  Figures all;
  const auto bytes = static_cast<double>(row.bytes);
  all.average_mib = median_of(row, [&](const WireLap& lap) { return average_mib(row, lap); });
  all.peak_mib =
      median_of(row, [&](const WireLap& lap) { return bytes / lap.peak_seconds / kMib; });
  all.mpps = all.average_mib * kMib / bytes / 1e6;
  std::vector<double> us;
  for (const WireLap& lap : row.laps) us.insert(us.end(), lap.us.begin(), lap.us.end());
  all.p50_us = quantile(us, 0.5);
  all.p99_us = quantile(us, 0.99);
  all.p999_us = quantile(us, 0.999);
  // A ping-pong carries as much back.
  const double ways = options_.is_ping_pong() ? 2 : 1;
  all.cpu_s_per_gib = row.cpu_s * kGib / (bytes * ways * static_cast<double>(us.size()));
  if (path_.mbit_per_s > 0) all.share = all.average_mib * kMib * 8 / (path_.mbit_per_s * 1e6);
  if (row.peers.empty()) return all;
  all.peer = median_of_peers(row, [&](const PerftestFigure& peer) {
    return options_.is_latency() ? peer.typical_us : peer.average_mib;
  });
  const std::vector<double> ratios = wire_ratios(row, options_.is_latency());
  all.ratio = median(ratios);
  all.lower_quartile = quantile(ratios, 0.25);
  all.upper_quartile = quantile(ratios, 0.75);
  return all;
}

std::string WireReport::text(const WireRow& row) const {
  const Figures all = figures(row);
  std::string line = fmt::format(
      "{:>6} {:>7} {:>9.2f} {:>9.2f} {:>9.6f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.3f} {:>6}",
      bytes_text(row.bytes), row.iterations, all.peak_mib, all.average_mib, all.mpps, all.p50_us,
      all.p99_us, all.p999_us, all.cpu_s_per_gib,
      all.share > 0 ? fmt::format("{:.3f}", all.share) : "-");
  if (!row.peers.empty())
    line += fmt::format(" {:>14.2f} {:>6.2f}  {:.2f}-{:.2f}", all.peer, all.ratio,
                        all.lower_quartile, all.upper_quartile);
  return line;
}

std::string WireReport::json(const WireRow& row) const {
  const Figures all = figures(row);
  nlohmann::ordered_json object{{"op", name(options_.op)},
                                {"transport", options_.asked.transport},
                                {"device", path_.device.name},
                                {"depth", options_.depth},
                                {"list", options_.list},
                                {"mtu", path_.mtu},
                                {"bytes", row.bytes},
                                {"iterations", row.iterations},
                                {"rounds", row.laps.size()},
                                {"peak_MiBps", all.peak_mib},
                                {"MiBps", all.average_mib},
                                {"Mpps", all.mpps},
                                {"half_round_trip", options_.is_ping_pong()},
                                {"p50_us", all.p50_us},
                                {"p99_us", all.p99_us},
                                {"p999_us", all.p999_us},
                                {"cpu_s_per_GiB", all.cpu_s_per_gib}};
  if (all.share > 0) object["line_share"] = all.share;
  if (!row.peers.empty()) {
    WireTask task;
    task.op = options_.op;
    task.depth = options_.depth;
    object["peer"] = perftest_program(task);
    object[options_.is_latency() ? "peer_p50_us" : "peer_MiBps"] = all.peer;
    object["ratio"] = all.ratio;
    object["ratio_quartiles"] = {all.lower_quartile, all.upper_quartile};
  }
  return object.dump();
}

}  // namespace weft
