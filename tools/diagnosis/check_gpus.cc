// GPUs beside RDMA ports, and where ranks run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

bool has_port_on_pci(const HostFacts& facts) {
  return std::ranges::any_of(facts.nics, [](const NicFacts& nic) {
    return !nic.rdma.empty() && !nic.pci.address.empty();
  });
}

// The node of each core.
using NodeOf = std::map<int, int>;
NodeOf nodes_of(const HostFacts& facts) {
  NodeOf nodes;
  for (const NodeFacts& node : facts.nodes)
    for (const int cpu : node.cpus) nodes.emplace(cpu, node.index);
  return nodes;
}

// The only node of these cores; -1: several, or unknown.
int node_of(const NodeOf& all, const std::vector<int>& cpus) {
  std::set<int> nodes;
  for (const int cpu : cpus) {
    const auto node = all.find(cpu);
    nodes.insert(node == all.end() ? -1 : node->second);
  }
  return nodes.size() == 1 ? *nodes.begin() : -1;
}

std::size_t cores_of(const HostFacts& facts) {
  std::size_t cores = 0;
  for (const NodeFacts& node : facts.nodes) cores += node.cpus.size();
  return cores;
}

// Two ranks on one core take turns, each for milliseconds.
void check_sharing(const HostFacts& facts, Report& report) {
  std::set<int> used;
  for (const RankFacts& rank : facts.ranks) used.insert(rank.cpus.begin(), rank.cpus.end());
  const std::size_t ranks = facts.ranks.size();
  if (used.empty() || used.size() >= ranks || cores_of(facts) <= used.size()) return;
  report.add(
      Severity::severe, {facts.host},
      fmt::format("{} ranks share core {}, and the host has {}", ranks,
                  list_text({used.begin(), used.end()}), cores_of(facts)),
      "sched_getaffinity of each rank",
      "mpirun --bind-to core --map-by core; srun --cpu-bind=cores; with several mpirun or weft run "
      "on a host, give each its own cores (taskset)");
}

void check_nodes_of_nics(const HostFacts& facts, const NodeOf& nodes, Report& report) {
  std::set<int> of_ranks, of_nics;
  for (const RankFacts& rank : facts.ranks) of_ranks.insert(node_of(nodes, rank.cpus));
  if (facts.ranks.empty()) of_ranks.insert(node_of(nodes, facts.cpus));
  std::vector<std::string> names;
  for (const NicFacts* nic : carriers(facts)) {
    if (nic->pci.node < 0) continue;
    of_nics.insert(nic->pci.node);
    if (!of_ranks.contains(nic->pci.node)) names.push_back(nic->name);
  }
  // A rank that may run on several nodes is bound to none.
  if (of_ranks.contains(-1) || of_nics.empty() || names.empty()) return;
  const bool is_near_any =
      std::ranges::any_of(of_nics, [&of_ranks](int node) { return of_ranks.contains(node); });
  if (is_near_any && (facts.ranks.size() < 2 || of_nics.size() < 2)) return;
  report.add(
      Severity::warning, {facts.host},
      fmt::format("all ranks are bound to node {}; {} {} elsewhere", fmt::join(of_ranks, ","),
                  fmt::join(names, ", "), names.size() == 1 ? "is" : "are"),
      fmt::format("sched_getaffinity, /sys/bus/pci/devices/*/numa_node: node {}",
                  fmt::join(of_nics, ",")),
      is_near_any
          ? "spread ranks over the nodes: mpirun --map-by numa, srun --distribution=*:cyclic"
          : fmt::format("numactl --cpunodebind={0} --membind={0}, or mpirun --map-by numa",
                        *of_nics.begin()));
}

void check_nodes_of_gpus(const HostFacts& facts, const NodeOf& nodes, Report& report) {
  for (const RankFacts& rank : facts.ranks) {
    const int node = node_of(nodes, rank.cpus);
    const auto gpu = std::ranges::find(facts.gpus, rank.gpu, &GpuFacts::index);
    if (node < 0 || gpu == facts.gpus.end() || gpu->pci.node < 0 || gpu->pci.node == node) continue;
    report.add(
        Severity::warning, {facts.host},
        fmt::format("rank {} is bound to node {}; GPU {}, with which it works, is on node {}",
                    rank.rank, node, gpu->index, gpu->pci.node),
        fmt::format("sched_getaffinity {}; /sys/bus/pci/devices/{}/numa_node", list_text(rank.cpus),
                    gpu->pci.address),
        "mpirun --map-by numa with CUDA_VISIBLE_DEVICES by local rank; srun --gpu-bind=closest");
  }
}

}  // namespace

void check_gpu_memory(const HostFacts& facts, Report& report) {
  const bool has_nvidia = std::ranges::any_of(facts.gpus, &GpuFacts::is_nvidia);
  if (!has_nvidia || !has_port_on_pci(facts)) return;
  if (!facts.has_nvidia) {
    report.add(Severity::severe, {facts.host}, "NVIDIA's GPUs have no driver",
               "/proc/driver/nvidia is not there",
               "modprobe nvidia; nvidia-smi says what is missing");
    return;
  }
  if (facts.has_peermem || facts.dma_buf == 1) return;
  report.add(Severity::severe, {facts.host},
             "RDMA ports cannot reach GPU memory: what GPUs send is copied to the host first",
             fmt::format("nvidia_peermem is not in /sys/module, and the driver {} dma-bufs",
                         facts.dma_buf == 0 ? "exports no" : "does not say that it exports"),
             "modprobe nvidia-peermem; for good echo nvidia-peermem > "
             "/etc/modules-load.d/nvidia-peermem.conf; or NVIDIA's open kernel modules");
}

void check_peer_traffic(const HostFacts& facts, Report& report) {
  for (const PeerFacts& peer : facts.peers) {
    if (!peer.redirecting.empty() && !peer.is_translated) {
      report.add(
          Severity::severe, {facts.host},
          fmt::format("ACS sends what GPU {} and {} exchange up to the root complex", peer.gpu,
                      peer.nic),
          fmt::format("ACSCtl of {}: ReqRedir+ or CmpltRedir+", fmt::join(peer.redirecting, ", ")),
          fmt::format("setpci -s {} ECAP_ACS+6.w=0000; for good the kernel's "
                      "pci=disable_acs_redir={}, or ACS off in the BIOS",
                      peer.redirecting.front(), fmt::join(peer.redirecting, ";")));
    } else if (peer.has_common_bridge && peer.is_behind_iommu) {
      report.add(
          Severity::warning, {facts.host},
          fmt::format("the IOMMU translates what GPU {} and {} exchange, at the root complex",
                      peer.gpu, peer.nic),
          "/sys/bus/pci/devices/*/iommu_group/type is DMA",
          "the kernel's iommu=pt (GRUB_CMDLINE_LINUX), then boot");
    }
  }
}

void check_binding(const HostFacts& facts, Report& report) {
  if (facts.nodes.empty()) return;
  check_sharing(facts, report);
  if (facts.nodes.size() < 2) return;
  const NodeOf nodes = nodes_of(facts);
  check_nodes_of_nics(facts, nodes, report);
  check_nodes_of_gpus(facts, nodes, report);
}

}  // namespace weft::diagnosis
