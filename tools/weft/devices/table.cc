// Columns as wide as what stands in them; the last one, a sentence, is not padded.
#include <fmt/format.h>

#include <algorithm>

#include "tools/weft/devices/devices.h"

namespace weft {
namespace {

using Row = std::vector<std::string>;

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t at = 0; at < row.size(); ++at)
      widths[at] = std::max(widths[at], row[at].size());
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t at = 0; at + 1 < row.size(); ++at)
      line += fmt::format("{:<{}}  ", row[at].empty() ? "-" : row[at], widths[at]);
    fmt::print("{}{}\n", line, row.back());
  }
}

std::string verdict(bool usable, const std::string& reason) {
  return (usable ? "usable: " : "not usable: ") + reason;
}

std::string number_or_none(int value) {
  return value < 0 ? "" : std::to_string(value);
}

std::string speed(int mbit_per_s) {
  return mbit_per_s < 0 ? "" : fmt::format("{} Mbit/s", mbit_per_s);
}

std::string name_of(const RdmaPort& port) {
  return fmt::format("{}/{}", port.device, port.port);
}

// The type of the card, and what it is not evident from.
std::string kind_of(const RdmaPort& port) {
  std::string text = port.link_layer;
  if (port.is_virtual_function) text += ", VF";
  if (port.is_bonded) text += ", bonded";
  return text;
}

void print_interfaces(const std::vector<NetworkInterface>& interfaces) {
  if (interfaces.empty()) return fmt::print("no network interface: {}\n", why_no_interfaces());
  std::vector<Row> rows{
      {"interface", "kind", "state", "speed", "MTU", "NUMA", "PCI", "address", "usable"}};
  for (const NetworkInterface& each : interfaces) {
    rows.push_back({each.name, each.kind, each.state, speed(each.mbit_per_s),
                    std::to_string(each.mtu), number_or_none(each.numa_node), each.pci, each.ip,
                    verdict(each.usable, each.reason)});
  }
  print_rows(rows);
}

void print_ports(const std::vector<RdmaPort>& ports) {
  std::vector<Row> rows{{"RDMA port", "link layer", "state", "link", "speed", "MTU", "NUMA", "PCI",
                         "driver", "interface", "LID", "usable"}};
  for (const RdmaPort& port : ports) {
    rows.push_back({name_of(port), kind_of(port), port.state, port.phys_state,
                    speed(port.mbit_per_s),
                    port.packet_bytes > 0 ? std::to_string(port.packet_bytes) : "",
                    number_or_none(port.numa_node), port.pci, port.driver, port.netdev,
                    number_or_none(port.lid), verdict(port.usable, port.reason)});
  }
  print_rows(rows);
}

void print_gids(const std::vector<RdmaPort>& ports) {
  std::vector<Row> rows{{"RDMA port", "GID", "kind", "address", "interface", "usable"}};
  for (const RdmaPort& port : ports) {
    for (const RdmaGid& gid : port.gids) {
      const std::string prefix =
          gid.prefix_bits < 0 ? std::string() : fmt::format("/{}", gid.prefix_bits);
      rows.push_back({name_of(port), std::to_string(gid.index), std::string(name(gid.kind)),
                      gid.ip + prefix, gid.netdev, verdict(gid.usable, gid.reason)});
    }
  }
  if (rows.size() > 1) fmt::print("\n");
  if (rows.size() > 1) print_rows(rows);
}

void print_ranking(const DeviceReport& report) {
  fmt::print("towards {}, best first:\n", report.peer);
  std::vector<Row> rows{{"rank", "RDMA port", "GID", "kind", "address", "interface", "why"}};
  int place = 0;
  for (const RankedGid& entry : report.ranking) {
    const bool reaches = entry.score >= 0;
    if (reaches) ++place;
    rows.push_back({reaches ? std::to_string(place) : "", name_of(*entry.port),
                    std::to_string(entry.gid->index), std::string(name(entry.gid->kind)),
                    entry.gid->ip, entry.gid->netdev,
                    reaches ? entry.reason : "impossible: " + entry.reason});
  }
  print_rows(rows);
}

void print_gpus(const DeviceReport& report) {
  fmt::print("\n");
  if (report.gpus.empty()) return fmt::print("no GPU: {}\n", report.no_gpu);
  std::vector<Row> rows{{"gpu", "name", "pci", "GiB", "compute", "dma-buf", "GPUDirect RDMA"}};
  for (const GpuDevice& gpu : report.gpus) {
    rows.push_back({std::to_string(gpu.number), gpu.name, gpu.address,
                    fmt::format("{:.1f}", static_cast<double>(gpu.bytes) / (1 << 30)),
                    fmt::format("{}.{}", gpu.major, gpu.minor), gpu.exports_dma_buf ? "yes" : "no",
                    gpu.has_gpudirect_rdma ? "yes" : "no"});
  }
  print_rows(rows);
  fmt::print("CUDA driver {}\n", report.cuda);
}

void print_libraries(const std::vector<OptionalLibrary>& libraries) {
  std::vector<Row> rows{{"library", "for", "found"}};
  for (const OptionalLibrary& library : libraries) {
    rows.push_back({library.file, library.purpose,
                    library.missing.empty()
                        ? "yes"
                        : fmt::format("{}; install {}", library.missing, library.package)});
  }
  fmt::print("\n");
  print_rows(rows);
}

}  // namespace

void print_tables(const DeviceReport& report) {
  if (report.peer.empty()) print_interfaces(report.interfaces);
  if (report.peer.empty()) fmt::print("\n");
  if (report.ports.empty()) {
    fmt::print("no RDMA device: {}\n", report.no_rdma);
  } else if (!report.peer.empty()) {
    print_ranking(report);
  } else {
    print_ports(report.ports);
    print_gids(report.ports);
    fmt::print(
        "\nmemory hooks: {}\n",
        report.memory_hooks
            ? "on (WEFT_MEMORY_HOOKS): the C library is patched; RDMA sends any memory from "
              "where it is, and mremap with MREMAP_FIXED fails in the whole process"
            : "off (WEFT_MEMORY_HOOKS): the C library is left alone; memory that is not from "
              "weft::allocate is copied before RDMA sends it");
  }
  if (!report.peer.empty()) return;
  if (!report.remarks.empty()) fmt::print("\n");
  for (const std::string& remark : report.remarks) fmt::print("{}\n", remark);
  print_gpus(report);
  print_libraries(report.libraries);
}

}  // namespace weft
