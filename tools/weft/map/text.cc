// A map as tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tools/weft/common/bytes.h"
#include "tools/weft/common/place.h"
#include "tools/weft/map/gpus.h"

namespace weft {
namespace {

constexpr std::size_t kLines = 24;  // of a long table

// Lines of one table, cut off where it is long.
class Table {
 public:
  Table(const std::string& head, bool all) : text_(fmt::format("\n{}\n", head)), all_(all) {}
  void add(const std::string& line) {
    if (all_ || lines_ < kLines) text_ += line + "\n";
    ++lines_;
  }
  [[nodiscard]] std::string text() const {
    if (all_ || lines_ <= kLines) return text_;
    return text_ + fmt::format("… and {} more (--all)\n", lines_ - kLines);
  }

 private:
  std::string text_;
  bool all_;
  std::size_t lines_ = 0;
};

const std::string& name_of(const ShownMap& shown, int machine) {
  return shown.cluster.machines[static_cast<std::size_t>(machine)].name;
}

int machine_of(const ShownMap& shown, Rank rank) {
  return shown.placement.machine_of(rank, shown.cluster);
}

std::string ranks(const ShownMap& shown, bool all) {
  Table table(
      fmt::format("{:>6} {:>6}  {:<12} {:<16} {}", "rank", "seat", "machine", "rails", "because"),
      all);
  for (Rank rank = 0; rank < shown.graph.size(); ++rank) {
    std::vector<std::string> rails;
    for (const int rail : shown.map.use.rails_of(rank))
      rails.push_back(shown.cluster.rails[static_cast<std::size_t>(rail)].name);
    table.add(fmt::format("{:>6} {:>6}  {:<12} {:<16} {}", rank,
                          shown.placement.seat[static_cast<std::size_t>(rank)],
                          name_of(shown, machine_of(shown, rank)),
                          fmt::format("{}", fmt::join(rails, ",")), shown.map.use.reason_of(rank)));
  }
  return table.text();
}

// "node0 mlx5_0", "node0 mlx5_0,mlx5_1", "node0 mlx5_0…mlx5_7".
std::string end_of(const ShownMap& shown, const MappedEdge& edge, int machine) {
  const std::string& name = name_of(shown, machine);
  if (edge.ways.empty()) return name;
  const std::string first = interface_name(shown.cluster, edge.ways.front().rail, machine);
  if (edge.ways.size() == 1) return fmt::format("{} {}", name, first);
  return fmt::format("{} {}{}{}", name, first, edge.ways.size() == 2 ? "," : "…",
                     interface_name(shown.cluster, edge.ways.back().rail, machine));
}

// The columns of what was measured; the error is that of the prediction.
std::string measured_head(const ShownMap& shown) {
  return shown.measured_us.empty() ? "" : fmt::format(" {:>10} {:>8}", "measured", "error %");
}
std::string measured(const ShownMap& shown, std::size_t number) {
  if (shown.measured_us.empty()) return "";
  const double us = shown.measured_us[number];
  const double predicted = shown.map.edges[number].alone_us;
  constexpr double kPercent = 100;
  return fmt::format(" {:>10.2f} {:>8}", us,
                     us > 0 ? fmt::format("{:+.0f}", kPercent * (predicted - us) / us) : "-");
}

std::string edges(const ShownMap& shown, bool all) {
  Table table(fmt::format("{:>6}    {:<6} {:>10} {:>10}{}  {:<22} {:<22} {}", "from", "to", "us",
                          "alone us", measured_head(shown), "local", "remote", "because"),
              all);
  for (std::size_t number = 0; number < shown.map.edges.size(); ++number) {
    const MappedEdge& edge = shown.map.edges[number];
    table.add(fmt::format(
        "{:>6} -> {:<6} {:>10.2f} {:>10.2f}{}  {:<22} {:<22} {}", edge.from, edge.to, edge.us,
        edge.alone_us, measured(shown, number), end_of(shown, edge, machine_of(shown, edge.from)),
        end_of(shown, edge, machine_of(shown, edge.to)), reason_text(edge, shown.cluster)));
  }
  return table.text();
}

// If a rank's tensors are on its GPU.
std::string gpus(const ShownMap& shown, bool all) {
  if (!has_gpus(shown)) return "";
  Table table(fmt::format("{:>6}    {:<6} {:<8} {:<8} {}", "from", "to", "GPU", "GPU",
                          "its memory goes by"),
              all);
  for (const MappedEdge& edge : shown.map.edges) {
    if (const std::optional<GpuWay> way = gpu_way(shown, edge))
      table.add(fmt::format("{:>6} -> {:<6} {:<8} {:<8} {}", edge.from, edge.to, way->from, way->to,
                            way->way));
  }
  return table.text();
}

std::string loads(const ShownMap& shown, bool all) {
  Table table(fmt::format("{:<36} {:>8} {:>10} {:>10} {:>11}", "link", "Gbit/s", "messages", "us",
                          "of busiest"),
              all);
  for (const LinkLoad& load : shown.map.loads) {
    table.add(fmt::format("{:<36} {:>8} {:>10.2f} {:>10.2f} {:>11.2f}", load.name, load.gbit_per_s,
                          load.messages, load.us, load.us / shown.map.loads.front().us));
  }
  return table.text();
}

std::string seats(const ShownMap& shown, bool all) {
  const std::string found = "\n" + text(*shown.search);
  if (shown.search->is_identity()) return found;
  std::map<int, Rank> rank_at;
  for (std::size_t rank = 0; rank < shown.placement.seat.size(); ++rank)
    rank_at[shown.placement.seat[rank]] = static_cast<Rank>(rank);
  std::map<int, std::vector<Rank>> on_machine;
  for (const auto& [seat, rank] : rank_at)
    on_machine[shown.cluster.machine_of(seat)].push_back(rank);
  Table table(fmt::format("{:<12} {}", "machine", "its ranks, seat by seat"), all);
  for (const auto& [machine, own] : on_machine)
    table.add(fmt::format("{:<12} {}", name_of(shown, machine), fmt::join(own, " ")));
  return found + table.text();
}

// "one lane of 10 GB/s".
std::string lanes_text(const CombiningWork& work) {
  const std::string rate = fmt::format("{:.4g} GB/s", work.gbyte_per_s);
  return work.lanes == 1 ? fmt::format("one lane of {}", rate)
                         : fmt::format("{} lanes of {} each", work.lanes, rate);
}

// What limits an exchange: the links, or what ranks do with what arrives.
std::string limit(const ShownMap& shown) {
  const std::string busiest = shown.map.loads.empty() ? ""
                                                      : fmt::format("; the busiest link is {}",
                                                                    shown.map.loads.front().name);
  const CombiningWork& work = shown.work;
  if (work.us <= shown.map.us) return busiest;
  const std::string combining = fmt::format(
      "\ncombining takes longest: rank {} reads {} of terms with {}; links need {:.2f} us",
      work.rank, bytes_text(static_cast<std::size_t>(work.bytes)), lanes_text(work), shown.map.us);
  const std::string more = shown.advice.lanes == 1
                               ? ""
                               : fmt::format("\n--lanes {}: {:.2f} us {}", shown.advice.lanes,
                                             shown.advice.us, cores_text(shown.cluster));
  return combining + busiest + more;
}

// Another policy is worth a line if it takes less than this share of the time.
constexpr double kFaster = 0.95;

}  // namespace

std::string map_text(const ShownMap& shown, bool all) {
  const auto bytes = static_cast<std::size_t>(shown.options.bytes);
  std::string text = describe(shown.cluster);
  text += ranks(shown, all) + edges(shown, all) + gpus(shown, all) + loads(shown, all);
  if (shown.search) text += seats(shown, all);
  text += fmt::format("\n{} of {} ranks, {} a message, rails: {}\n", shown.graph.name(),
                      shown.graph.size(), bytes_text(bytes), name(shown.options.policy));
  text += fmt::format("one exchange takes {:.2f} us{}", shown.us(),
                      between_text(shown.map.between_switches));
  text += limit(shown);
  for (const auto& [policy, us] : shown.other_us) {
    if (us < kFaster * shown.us()) text += fmt::format("\n--rails {}: {:.2f} us", name(policy), us);
  }
  return text + "\n";
}

}  // namespace weft
