// Clusters from the command line.
#include "tools/weft/common/like.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/weft/common/range.h"

namespace weft {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kMostMachines = 1 << 20;

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

}  // namespace

void add_cluster_options(CLI::App& command, ClusterArguments& to) {
  command
      .add_option("--cluster", to.file, "TOML file (docs/cluster.md), or what ibnetdiscover prints")
      ->check(no_empty_text());
  CLI::Option* like =
      command.add_option("--like", to.like, "Instead: machines like this file, or \"this\"")
          ->check(no_empty_text())
          ->excludes("--cluster");
  command.add_option("--correct", to.correct, "With --like: TOML file, what that does not say")
      ->check(no_empty_text());
  command.add_option("--machines", to.machines, "With --like: so many")->needs(like);
  command.add_option("--per-machine", to.per_machine, "With --like: ranks of each [1]")
      ->needs(like);
  command.add_option("--latency", to.latency_us, "With --like: microseconds of a message [2]")
      ->check(number_in(0.0, 1e9))
      ->needs(like);
}

Result<Cluster> cluster_of(const ClusterArguments& asked, std::string_view command) {
  if (asked.file.empty() && asked.like.empty()) {
    return invalid(
        fmt::format("say --cluster FILE, or --like MACHINE --machines N; {} --help", command));
  }
  if (!asked.file.empty() && !asked.correct.empty())
    return invalid("--correct: machines of a cluster file have a line of their own for it");
  if (!asked.file.empty()) return read_cluster(asked.file);
  if (asked.machines < 1 || asked.machines > kMostMachines)
    return invalid(fmt::format("--machines {}: expected 1…{}", asked.machines, kMostMachines));
  if (asked.per_machine < 1 || asked.per_machine > kMostRanks / asked.machines)
    return invalid(fmt::format("--per-machine {}: expected 1…{}", asked.per_machine,
                               kMostRanks / asked.machines));
  WEFT_ASSIGN(Machine machine,
              asked.like == "this" ? discover_machine() : read_machine(asked.like));
  if (!asked.correct.empty()) WEFT_RETURN_IF_ERROR(correct_machine(machine, asked.correct));
  WEFT_ASSIGN(Cluster cluster, uniform_cluster(std::make_shared<const Machine>(std::move(machine)),
                                               asked.machines, asked.per_machine));
  for (Rail& rail : cluster.rails) rail.latency_us = asked.latency_us;
  return cluster;
}

}  // namespace weft
