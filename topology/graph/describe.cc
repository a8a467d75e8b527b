// Text for tools: pure formatting of what the other files compute.
#include <fmt/format.h>
#include <weft/graph/describe.h>
#include <weft/graph/mixing.h>
#include <weft/graph/properties.h>
#include <weft/macros.h>

#include <span>
#include <string_view>

namespace weft {
namespace {

std::string_view yes_or_no(bool value) {
  return value ? "yes" : "no";
}

std::string yes_or_why(const Status& status) {
  return status.ok() ? "yes" : fmt::format("no ({})", status.text());
}

std::string mixing_text(const Mixing& mixing) {
  std::string text =
      fmt::format("sigma2 {:.6f}, spectral gap {:.6f}, ", mixing.sigma2, mixing.spectral_gap);
  if (mixing.rounds)
    return text + fmt::format("rounds to {:g}: {}", kMixedDistance, *mixing.rounds);
  return text + fmt::format("rounds to {:g}: none within {}", kMixedDistance, kMostMixingRounds);
}

std::string peers_text(std::span<const Peer> peers) {
  std::string text;
  for (const Peer& peer : peers) text += fmt::format(" {} ({:.4g})", peer.rank, peer.weight);
  return text.empty() ? " none" : text;
}

std::string rank_line(const Graph& graph, Rank rank) {
  return fmt::format("rank {}: self {:.4g}; from{}; to{}", rank, graph.self_weight(rank),
                     peers_text(graph.in_edges(rank)), peers_text(graph.out_edges(rank)));
}

std::string step_line(const Graph& graph, std::uint64_t step) {
  std::string text = fmt::format("step {}:", step);
  for (Rank rank = 0; rank < graph.size(); ++rank) {
    for (const Peer& peer : graph.out_edges(rank)) text += fmt::format(" {}->{}", rank, peer.rank);
  }
  return graph.edge_count() == 0 ? text + " no edges" : text;
}

}  // namespace

std::vector<std::string> describe(const Graph& graph) {
  std::vector<std::string> lines = {
      fmt::format("{}: {} ranks, {} edges", graph.name(), graph.size(), graph.edge_count()),
      fmt::format("degrees: in at most {}, out at most {}; regular: {}; undirected: {}",
                  max_in_degree(graph), max_out_degree(graph), yes_or_no(is_regular(graph)),
                  yes_or_no(is_undirected(graph))),
      fmt::format("strongly connected: {}", yes_or_no(is_strongly_connected(graph))),
      fmt::format("row-stochastic: {}", yes_or_why(check_row_stochastic(graph))),
      fmt::format("column-stochastic: {}", yes_or_why(check_column_stochastic(graph))),
      fmt::format("mixing: {}", mixing_text(mixing(graph))),
  };
  for (Rank rank = 0; rank < graph.size(); ++rank) lines.push_back(rank_line(graph, rank));
  return lines;
}

Result<std::vector<std::string>> describe(const Schedule& schedule) {
  WEFT_ASSIGN(const Graph united, union_graph(schedule));
  const Result<Mixing> figures = mixing(schedule);
  std::vector<std::string> lines = {
      fmt::format("{}: {} ranks, period {}", schedule.name(), schedule.size(), schedule.period()),
      fmt::format("union over a period: {} edges, strongly connected: {}", united.edge_count(),
                  yes_or_no(is_strongly_connected(united))),
      fmt::format("mixing over a period: {}",
                  figures.ok() ? mixing_text(*figures) : std::string(figures.status().text())),
  };
  for (std::uint64_t step = 0; step < schedule.cover(); ++step) {
    WEFT_ASSIGN(const Graph graph, step_graph(schedule, step));
    lines.push_back(step_line(graph, step));
  }
  return lines;
}

}  // namespace weft
