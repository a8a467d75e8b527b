// verify_wires: both ends of every edge must have it.
#include "scheduler/verify/wires.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::verifier {
namespace {

Status one_sided(Rank from, Rank to, Rank without) {
  return {Code::mismatch,
          fmt::format("edge {} -> {}: rank {} has it, rank {} does not", from, to,
                      without == from ? to : from, without),
          without};
}

// The index of `rank` in an ascending list, or the list's size.
std::size_t find(const std::vector<Rank>& peers, Rank rank) {
  const auto found = std::lower_bound(peers.begin(), peers.end(), rank);
  if (found == peers.end() || *found != rank) return peers.size();
  return static_cast<std::size_t>(found - peers.begin());
}

}  // namespace

Result<Wires> connect(std::span<const Planned> programs) {
  const auto view_of = [&](Rank rank) -> const View& {
    return programs[static_cast<std::size_t>(rank)].view;
  };
  Wires wires(programs.size());
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const View& view = programs[i].view;
    for (const Rank peer : view.out) {
      const std::size_t at = find(view_of(peer).in, view.rank);
      if (at == view_of(peer).in.size()) return one_sided(view.rank, peer, peer);
      wires[i].push_back(static_cast<std::uint32_t>(at));
    }
    for (const Rank peer : view.in) {
      const std::vector<Rank>& theirs = view_of(peer).out;
      if (find(theirs, view.rank) == theirs.size()) return one_sided(peer, view.rank, peer);
    }
  }
  return wires;
}

}  // namespace weft::verifier
