// place: NUMA nodes and cores, as the kernel lists them.
#include "engine/lane/place.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "verbs/device/device.h"

namespace weft {
namespace {

std::vector<int> read_list(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return number_list(line);
}

std::vector<int> nodes_online(const std::string& sys) {
  return read_list(sys + "/devices/system/node/online");
}

// The cores of a node; none if the node does not exist.
std::vector<int> cores_of(const std::string& sys, int node) {
  return read_list(fmt::format("{}/devices/system/node/node{}/cpulist", sys, node));
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

LanePlace choose_node(std::span<const int> rail_nodes, int work_node) {
  LanePlace place;
  if (rail_nodes.empty()) return place;
  const int node = rail_nodes.front();
  const auto other = std::ranges::find_if(rail_nodes, [node](int each) { return each != node; });
  if (std::ranges::find(rail_nodes, -1) != rail_nodes.end()) {
    place.reason = "not bound: of an interface nobody says on which NUMA node it is";
  } else if (other == rail_nodes.end()) {
    place.node = node;
    place.reason = fmt::format("NUMA node {}, where its interfaces are", node);
  } else if (std::ranges::find(rail_nodes, work_node) != rail_nodes.end()) {
    place.node = work_node;
    place.reason = fmt::format("NUMA node {}, where it works and has an interface", work_node);
  } else {
    place.reason =
        fmt::format("not bound: its interfaces are on NUMA nodes {} and {}", node, *other);
  }
  return place;
}

LanePlace with_cores(LanePlace chosen, std::span<const int> node_cores,
                     std::span<const int> allowed) {
  if (chosen.node < 0) return chosen;
  std::ranges::set_intersection(node_cores, allowed, std::back_inserter(chosen.cores));
  chosen.reason = chosen.cores.empty()
                      ? fmt::format("not bound: this process may not run on {}", chosen.reason)
                      : fmt::format("bound to {} cores of {}", chosen.cores.size(), chosen.reason);
  return chosen;
}

bool has_several_nodes(const std::string& sys) {
  return nodes_online(sys).size() > 1;
}

LanePlace place_lane_here(std::span<const int> rail_nodes, int work_node, const std::string& sys) {
  if (rail_nodes.empty() || !has_several_nodes(sys)) return {};
  LanePlace chosen = choose_node(rail_nodes, work_node);
  const std::vector<int> cores = cores_of(sys, chosen.node);
  return with_cores(std::move(chosen), cores, allowed_cores());
}

int node_of_cores(const std::string& sys) {
  const std::vector<int> allowed = allowed_cores();
  for (const int node : nodes_online(sys)) {
    if (!allowed.empty() && std::ranges::includes(cores_of(sys, node), allowed)) return node;
  }
  return -1;
}

Status bind_thread(const LanePlace& place) {
  if (place.cores.empty()) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : place.cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0 ? Status()
                                                     : system_error("sched_setaffinity", errno);
}

}  // namespace weft
