// weft topo: a machine's network interfaces and GPUs, and how near they are to each other.
#include "tools/weft/topo.h"

#include <fmt/format.h>

#include <memory>

#include "tools/weft/commands.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Distances are those of `nvidia-smi topo`: PIX below one PCI switch, PXB across switches, PHB below one
host bridge, NODE on one NUMA node, SYS across nodes.

Examples:
  weft topo
  weft topo --from machine.xml --correct rates.toml
  weft topo --from "synthetic:pack:2 core:8 pu:1" --json
  weft topo --xml > machine.xml)";

struct TopoArguments {
  std::string from{};
  std::string correct{};
  bool json = false;
  bool xml = false;
};

int fail(const Status& status) {
  fmt::print(stderr, "weft topo: {}\n", status.to_string());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

int write_xml() {
  const Result<std::string> xml = export_machine();
  if (!xml.ok()) return fail(xml.status());
  fmt::print("{}", *xml);
  return 0;
}

int run(const TopoArguments& asked) {
  if (asked.xml) return write_xml();
  Result<Machine> machine = asked.from.empty() ? discover_machine() : read_machine(asked.from);
  if (!machine.ok()) return fail(machine.status());
  if (!asked.correct.empty()) {
    if (const Status status = correct_machine(*machine, asked.correct); !status.ok())
      return fail(status);
  }
  fmt::print("{}", asked.json ? machine_json(*machine) : machine_text(*machine));
  return 0;
}

}  // namespace

void add_topo(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "topo", "Show which network interfaces and GPUs a machine has, and how near they are");
  const auto arguments = std::make_shared<TopoArguments>();
  TopoArguments& to = *arguments;
  CLI::Option* from =
      command->add_option("--from", to.from, "hwloc or NCCL XML, or synthetic:… [this machine]");
  CLI::Option* correct =
      command->add_option("--correct", to.correct, "TOML file: what the source does not tell");
  CLI::Option* json = command->add_flag("--json", to.json, "One JSON object");
  command->add_flag("--xml", to.xml, "Write this machine as hwloc XML")
      ->excludes(from)
      ->excludes(correct)
      ->excludes(json);
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
