// weft topo: a machine's network interfaces and GPUs, and how near they are to each other.
#include "tools/weft/topo/topo.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "engine/config/config.h"
#include "tools/weft/commands.h"
#include "tools/weft/common/interfaces.h"
#include "tools/weft/common/range.h"
#include "tools/weft/common/save.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Distances are those of `nvidia-smi topo`: PIX below one PCI switch, PXB across switches, PHB below one
host bridge, NODE on one NUMA node, SYS across packages; and PKG on one package, across its nodes.

Examples:
  weft topo
  weft topo --from machine.xml --correct rates.toml
  weft topo --from "synthetic:pack:2 core:8 pu:1" --json
  weft topo --svg machine.svg
  weft topo --xml > machine.xml
  nvidia-smi topo -m > smi.txt                    and, on any machine: weft topo --from smi.txt
  weft topo --nccl > topo.xml                     for NCCL_TOPO_FILE
  weft topo --from "synthetic:pack:2 core:8 pu:1" --correct devices.toml --xml > machine.xml)";

struct TopoArguments {
  std::string from{};
  std::string correct{};
  std::string svg{};
  std::string json{};
  bool xml = false;
  bool nccl = false;
  bool nccl_graph = false;
};

int fail(const Status& status) {
  fmt::print(stderr, "weft topo: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

// What WEFT_INTERFACES leaves of this machine; empty: all.
std::string used_text(const Config& config, const Machine& machine) {
  std::string text;
  for (const std::string& name : named_interfaces(config)) {
    const bool is_here = std::ranges::any_of(
        machine.nics, [&name](const Nic& nic) { return nic.name() == name || nic.netdev == name; });
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, is_here ? "" : " (not here)");
  }
  return text.empty() ? text : fmt::format("\nused by ranks: {}, by WEFT_INTERFACES\n", text);
}

Status write_xml(const TopoArguments& asked) {
  WEFT_ASSIGN(const std::string xml, export_machine(asked.from, asked.correct));
  fmt::print("{}", xml);
  return {};
}

Status show(const TopoArguments& asked, const Config& config) {
  Result<Machine> machine = asked.from.empty() ? discover_machine() : read_machine(asked.from);
  if (!machine.ok()) return machine.status();
  if (!asked.correct.empty()) WEFT_RETURN_IF_ERROR(correct_machine(*machine, asked.correct));
  if (asked.nccl || asked.nccl_graph) {
    WEFT_ASSIGN(const std::string xml, asked.nccl ? nccl_topology(*machine) : nccl_graph(*machine));
    fmt::print("{}", xml);
    return {};
  }
  if (!asked.svg.empty()) return save(asked.svg, machine_svg(*machine));
  const bool is_here = asked.from.empty();
  const GpuAbilities abilities = is_here ? gpu_abilities(*machine) : GpuAbilities();
  if (!asked.json.empty()) {
    const std::string json = machine_json(*machine, is_here ? &abilities : nullptr);
    return asked.json == "-" ? print_now(json) : save(asked.json, json);
  }
  fmt::print("{}{}", machine_text(*machine), is_here ? used_text(config, *machine) : "");
  // Without a GPU, that there is no driver is no news.
  if (!abilities.gpus.empty() || (is_here && !machine->gpus.empty()))
    fmt::print("{}", abilities_text(abilities));
  return {};
}

// Of this machine, ranks take the file of WEFT_HARDWARE.
int run(TopoArguments asked) {
  const Result<Config> config = Config::from_environment(UnknownNames::refuse);
  if (!config.ok()) return fail(config.status());
  if (asked.from.empty() && asked.correct.empty()) asked.correct = config->hardware;
  const Status status = asked.xml ? write_xml(asked) : show(asked, *config);
  return status.ok() ? 0 : fail(status);
}

}  // namespace

void add_topo(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "topo", "Show which network interfaces and GPUs a machine has, and how near they are");
  const auto arguments = std::make_shared<TopoArguments>();
  TopoArguments& to = *arguments;
  command
      ->add_option(
          "--from", to.from,
          "hwloc or NCCL XML, what nvidia-smi topo -m prints, or synthetic:… [this machine]")
      ->check(no_empty_text());
  command
      ->add_option("--correct", to.correct,
                   "TOML file: what the source does not say [of this machine, WEFT_HARDWARE]")
      ->check(no_empty_text());
  CLI::Option* json = add_json_option(*command, to.json, "One JSON object (docs/hardware.md)");
  command->add_option("--svg", to.svg, "Draw it to this file instead")
      ->check(no_empty_text())
      ->excludes(json);
  command->add_flag("--xml", to.xml, "Write it as hwloc XML instead")
      ->excludes(json)
      ->excludes("--svg");
  command
      ->add_flag("--nccl", to.nccl, "Write it as a topology file of NCCL (NCCL_TOPO_FILE) instead")
      ->excludes(json)
      ->excludes("--svg")
      ->excludes("--xml");
  command
      ->add_flag("--nccl-graph", to.nccl_graph,
                 "Write rings over its GPUs and interfaces for NCCL (NCCL_GRAPH_FILE) instead")
      ->excludes(json)
      ->excludes("--svg")
      ->excludes("--xml")
      ->excludes("--nccl");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
