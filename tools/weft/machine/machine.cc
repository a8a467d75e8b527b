// weft machine: what Weft found on this machine, and what it can use.
#include <fmt/format.h>

#include "tools/weft/commands.h"
#include "topology/hardware/hardware.h"
#include "verbs/device/device.h"

namespace weft {
namespace {

std::string amount(std::uint64_t bytes) {
  const auto kib = static_cast<double>(bytes) / 1024;
  if (kib < 1024) return fmt::format("{:.0f} KiB", kib);
  if (kib < 1024 * 1024) return fmt::format("{:.0f} MiB", kib / 1024);
  return fmt::format("{:.1f} GiB", kib / 1024 / 1024);
}

void line(std::string_view what, const std::string& text) {
  fmt::print("{:<11} {}\n", what, text);
}

std::string or_absent(const std::string& text) {
  return text.empty() ? "not offered" : text;
}

void print_machine(const Machine& machine) {
  line("processor", fmt::format("{}: {} package(s), {} cores, {} hardware threads", machine.cpu,
                                machine.packages, machine.cores, machine.threads));
  for (const CacheLevel& cache : machine.caches) {
    line("cache", fmt::format("level {}: {} x {}, {} core(s) each", cache.level, cache.count,
                              amount(cache.bytes), cache.cores_each));
  }
  line("memory", amount(machine.memory_bytes));
  for (const NumaNode& node : machine.nodes) {
    line("NUMA", fmt::format("node {}: {}, {} cores", node.index, amount(node.bytes), node.cores));
  }
  const HugePageState& huge = machine.huge_pages;
  line("huge pages",
       fmt::format("{} each, {} reserved, {} free; transparent: {}, shared memory: {}",
                   amount(huge.page_bytes), huge.reserved, huge.free, or_absent(huge.anonymous),
                   or_absent(huge.shared)));
  for (const std::string& what : machine.unreadable) line("unknown", what);
}

void print_interface(const NetworkInterface& interface) {
  const std::string speed =
      interface.mbit_per_s > 0 ? fmt::format("{} Mbit/s", interface.mbit_per_s) : "speed unknown";
  line("network",
       fmt::format("{} ({}, {}, MTU {}): {}, {}", interface.name, interface.kind, speed,
                   interface.mtu, interface.usable ? "usable" : "not usable", interface.reason));
}

void print_port(const RdmaPort& port) {
  line("RDMA", fmt::format("{} port {} ({}, {}, {} GIDs): {}, {}", port.device, port.port,
                           port.link_layer, port.rate, port.gids.size(),
                           port.usable ? "usable" : "not usable", port.reason));
}

int run() {
  const Result<Machine> machine = discover_machine();
  if (!machine.ok()) {
    fmt::print(stderr, "weft machine: {}\n", machine.status().text());
    return 1;
  }
  print_machine(*machine);
  for (const NetworkInterface& interface : discover_interfaces()) print_interface(interface);
  const std::vector<RdmaPort> ports = discover_rdma_ports();
  for (const RdmaPort& port : ports) print_port(port);
  if (ports.empty())
    line("RDMA", "no device: the kernel lists none in /sys/class/infiniband (weft devices)");
  return 0;
}

}  // namespace

void add_machine(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("machine", "Show this machine: cores, caches, memory, interfaces");
  command->footer("\nThe interfaces in detail: weft devices\n\nExamples:\n  weft machine");
  command->callback([&action] { action = run; });
}

}  // namespace weft
