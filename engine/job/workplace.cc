// workplace: see the header.
#include "engine/job/workplace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/lane/lane.h"

namespace weft {
namespace {

// What a rank with this local rank usually works with; empty if the local rank is unknown.
Workplace usual(const Config& config, const Machine& machine) {
  if (config.local_rank == kNoRank) return {};
  return usual_workplace(machine, config.local_rank, config.local_size);
}

// By the file of Config::hardware.
Status correct(const Config& config, const Machine& machine, Surroundings& here) {
  if (config.hardware.empty()) return {};
  WEFT_RETURN_IF_ERROR(correct_machine(here.machine, config.hardware));
  log(LogLevel::info, here.machine.source);
  const bool is_first = config.local_rank <= 0;  // of its machine, or this is unknown
  if (is_first && !here.machine.added.empty()) {
    log(LogLevel::warning, fmt::format("WEFT_HARDWARE adds what this machine does not have: {}",
                                       fmt::join(here.machine.added, ", ")));
  }
  for (const Nic& nic : machine.nics) {
    if (nic_named(here.machine.nics, nic.name()) == nullptr) here.absent.push_back(nic);
  }
  return {};
}

}  // namespace

Result<Surroundings> surroundings(const Config& config) {
  WEFT_ASSIGN(const Machine machine, discover_machine());
  Surroundings here{machine, node_of_cores()};
  WEFT_RETURN_IF_ERROR(correct(config, machine, here));
  // Only if the program has the driver already: this is no reason to load it.
  const Result<std::vector<GpuDevice>> driver =
      is_cuda_loaded() ? gpu_devices() : std::vector<GpuDevice>();
  here.shown = shown_gpus(here.machine, gpu_variables(environment()),
                          driver.ok() ? *driver : std::vector<GpuDevice>());
  if (!here.shown.unknown.empty()) {
    log(LogLevel::warning,
        fmt::format("which GPU this rank works with is assumed: {}; WEFT_GPU says it",
                    here.shown.unknown));
  }
  return here;
}

Result<const Surroundings*> Hardware::get(const Config& config) {
  if (found_) return &*found_;
  WEFT_ASSIGN(found_, surroundings(config));
  return &*found_;
}

Result<Workplace> workplace_of(const Config& config, const Surroundings& here) {
  const bool is_told = config.gpu >= 0;
  if (is_told && std::ranges::count(here.machine.gpus, config.gpu, &Gpu::index) == 0) {
    return Status(Code::invalid_argument,
                  fmt::format("WEFT_GPU={}: this machine has {}", config.gpu,
                              here.machine.gpus.empty()
                                  ? std::string("no GPU")
                                  : fmt::format("GPUs up to {}", here.machine.gpus.back().index)));
  }
  if (is_told) return Workplace{config.gpu, -1};
  const std::vector<int>& gpus = here.shown.gpus;
  const bool may_have_gpu = config.gpu == Config::kUsualGpu && !gpus.empty();
  if (may_have_gpu && config.local_rank != kNoRank)
    return Workplace{gpus[static_cast<std::size_t>(config.local_rank) % gpus.size()], -1};
  if (may_have_gpu && gpus.size() == 1 && !here.shown.by.empty()) return Workplace{gpus[0], -1};
  if (here.node >= 0) return Workplace{-1, here.node};
  Machine without_gpus = here.machine;
  without_gpus.gpus.clear();
  return usual(config, without_gpus);
}

int told_node(const Surroundings& here, Workplace place) {
  if (here.node >= 0) return here.node;
  const auto gpu = std::ranges::find(here.machine.gpus, place.gpu, &Gpu::index);
  return gpu == here.machine.gpus.end() ? here.node : gpu->place.numa_node;
}

const Nic* nic_named(std::span<const Nic> nics, const std::string& name) {
  const auto found = std::ranges::find_if(
      nics, [&name](const Nic& nic) { return nic.name() == name || nic.netdev == name; });
  return found == nics.end() ? nullptr : &*found;
}

RailDistance distance_to(const Machine& machine, Workplace place, const std::string& interface) {
  const Nic* nic = nic_named(machine.nics, interface);
  if (nic == nullptr) return {how_far(machine, place, {}), -1};
  return {how_far(machine, place, *nic), carried_mbit_per_s(*nic)};
}

std::string how_near(const Machine& machine, Workplace place, const std::string& interface) {
  const Nic* nic = nic_named(machine.nics, interface);
  return nic == nullptr ? interface + ", distance unknown" : how_near(machine, place, *nic);
}

}  // namespace weft
