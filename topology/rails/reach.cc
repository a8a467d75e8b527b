// Machines that are like each other on every rail are looked at once.
#include "topology/rails/reach.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {
namespace {

std::vector<Members> reaching(const Cluster& cluster, const std::vector<int>& ranks) {
  std::vector<Members> reaches;
  const auto machines = static_cast<int>(ranks.size());
  const bool is_alone = std::ranges::count(ranks, 0) == machines - 1;
  for (const Rail& rail : cluster.rails) {
    const auto counts = [&](int m) {
      return rail.has(m) && ranks[static_cast<std::size_t>(m)] > 0;
    };
    std::map<int, int> members;  // of a part
    for (int m = 0; m < machines; ++m) members[rail.part_of(m)] += counts(m) ? 1 : 0;
    Members has_company;
    for (int m = 0; m < machines; ++m)
      has_company.push_back(counts(m) && (is_alone || members[rail.part_of(m)] > 1));
    reaches.push_back(std::move(has_company));
  }
  return reaches;
}

// Does a machine reach others over networks of both kinds?
bool has_both_kinds(const std::vector<Members>& reaches, const std::vector<Members>& has_rdma,
                    std::size_t machine) {
  bool rdma = false;
  bool other = false;
  for (std::size_t r = 0; r < reaches.size(); ++r)
    if (reaches[r][machine]) (has_rdma[r][machine] ? rdma : other) = true;
  return rdma && other;
}

// Machines with ranks, by what they reach over each rail, and over which kind of network.
std::vector<std::vector<int>> alike(const Cluster& cluster, const std::vector<int>& ranks,
                                    const std::vector<Members>& reaches,
                                    const std::vector<Members>& has_rdma) {
  std::map<std::vector<std::pair<int, bool>>, std::vector<int>> classes;
  for (std::size_t m = 0; m < ranks.size(); ++m) {
    if (ranks[m] == 0) continue;
    std::vector<std::pair<int, bool>> rails;
    for (std::size_t r = 0; r < reaches.size(); ++r) {
      const int part = cluster.rails[r].part_of(static_cast<int>(m));
      rails.emplace_back(reaches[r][m] ? part : -1, has_rdma[r][m]);
    }
    classes[std::move(rails)].push_back(static_cast<int>(m));
  }
  std::vector<std::vector<int>> machines;
  for (const auto& [rails, members] : classes) machines.push_back(members);
  return machines;
}

// A machine sends over a rail if it does so to one other machine.
std::vector<Members> carrying(const Cluster& cluster, const std::vector<Members>& has_rdma,
                              const std::vector<std::vector<int>>& classes) {
  std::vector<Members> carries(cluster.rails.size(), Members(cluster.machines.size(), false));
  std::vector<int> rails;
  for (std::size_t a = 0; a < classes.size(); ++a) {
    for (std::size_t b = 0; b < classes.size(); ++b) {
      if (a == b && classes[a].size() == 1) continue;
      find_rails_between(cluster.rails, has_rdma, classes[a].front(), classes[b].back(), rails);
      for (const int rail : rails)
        for (const int m : classes[a])
          carries[static_cast<std::size_t>(rail)][static_cast<std::size_t>(m)] = true;
    }
  }
  return carries;
}

}  // namespace

std::vector<Members> rdma_of(const Cluster& cluster) {
  std::vector<Members> has_rdma;
  for (const Rail& rail : cluster.rails) {
    Members& own = has_rdma.emplace_back();
    for (std::size_t m = 0; m < cluster.machines.size(); ++m) {
      const std::vector<Nic>& nics = cluster.machines[m].hardware->nics;
      own.push_back(rail.nics[m] >= 0 &&
                    !nics[static_cast<std::size_t>(rail.nics[m])].rdma.empty());
    }
  }
  return has_rdma;
}

void find_rails_between(const std::vector<Rail>& rails, const std::vector<Members>& has_rdma,
                        int from, int to, std::vector<int>& found) {
  found.clear();
  bool is_rdma = false;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    if (!rails[rail].reaches(from, to)) continue;
    found.push_back(static_cast<int>(rail));
    is_rdma = is_rdma || is_rdma_between(has_rdma[rail], from, to);
  }
  if (!is_rdma) return;
  std::erase_if(found, [&](int rail) {
    return !is_rdma_between(has_rdma[static_cast<std::size_t>(rail)], from, to);
  });
}

Reach reach_of(const Cluster& cluster, const std::vector<int>& ranks,
               const std::vector<Members>& has_rdma) {
  Reach reach;
  reach.reaches = reaching(cluster, ranks);
  reach.carries = reach.reaches;
  std::vector<int> machines(ranks.size());
  for (std::size_t m = 0; m < machines.size(); ++m) machines[m] = static_cast<int>(m);
  const bool is_mixed = std::ranges::any_of(machines, [&](int m) {
    return has_both_kinds(reach.reaches, has_rdma, static_cast<std::size_t>(m));
  });
  const bool is_alone = std::ranges::count(ranks, 0) + 1 == std::ssize(ranks);
  if (is_mixed && !is_alone)
    reach.carries = carrying(cluster, has_rdma, alike(cluster, ranks, reach.reaches, has_rdma));
  return reach;
}

}  // namespace weft
