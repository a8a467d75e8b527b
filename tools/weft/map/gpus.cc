// Ways of GPU memory: inside a machine by what connects its GPUs, to others by the interface.
#include "tools/weft/map/gpus.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

struct Seat {
  const Machine* machine = nullptr;
  int number = 0;            // of the machine
  const Gpu* gpu = nullptr;  // null: none
};

Seat seat_of(const ShownMap& shown, Rank rank) {
  Seat seat;
  seat.number = shown.placement.machine_of(rank, shown.cluster);
  const ClusterMachine& machine = shown.cluster.machines[static_cast<std::size_t>(seat.number)];
  seat.machine = machine.hardware.get();
  const int local = shown.placement.seat[static_cast<std::size_t>(rank)] - machine.first_rank;
  const Workplace place = usual_workplace(*seat.machine, local, machine.ranks);
  const auto found = std::ranges::find(seat.machine->gpus, place.gpu, &Gpu::index);
  if (found != seat.machine->gpus.end()) seat.gpu = &*found;
  return seat;
}

std::string rate_text(double gbyte_per_s) {
  return gbyte_per_s > 0 ? fmt::format(", {:.4g} GB/s", gbyte_per_s) : std::string();
}

// What connects two GPUs beside PCI: a link, or a switch that both have links to.
std::string link_text(const Machine& machine, int from, int to) {
  const auto link_to = [&](int gpu, int peer) {
    const auto found = std::ranges::find_if(machine.gpu_links, [&](const GpuLink& link) {
      return link.gpu == gpu && link.peer == peer;
    });
    return found == machine.gpu_links.end() ? nullptr : &*found;
  };
  if (const GpuLink* link = link_to(from, to); link != nullptr)
    return std::string(name(link->kind)) + rate_text(link->gbyte_per_s);
  const GpuLink* const up = link_to(from, GpuLink::kSwitch);
  const GpuLink* const down = link_to(to, GpuLink::kSwitch);
  if (up == nullptr || down == nullptr) return {};
  return fmt::format("{} through a switch{}", name(up->kind),
                     rate_text(std::min(up->gbyte_per_s, down->gbyte_per_s)));
}

std::string way_inside(const Machine& machine, const Gpu& from, const Gpu& to) {
  if (from.index == to.index) return "CUDA IPC in the GPU";
  if (const std::string link = link_text(machine, from.index, to.index); !link.empty())
    return "CUDA IPC over " + link;
  const Distance far = distance(from.place, to.place);
  return fmt::format(
      "CUDA IPC over PCI, {}{}{}; blocks of the host if the GPUs do not reach each other",
      description(far.nearness), rate_text(far.gbyte_per_s),
      machine.are_gpu_links_known ? "" : " (no word of NVLink)");
}

std::string way_between(const ShownMap& shown, const MappedEdge& edge, const Seat& from) {
  const Nic* farthest = nullptr;
  const Workplace place{from.gpu->index, -1};
  for (const Way& way : edge.ways) {
    const Rail& rail = shown.cluster.rails[static_cast<std::size_t>(way.rail)];
    const Nic& nic =
        from.machine
            ->nics[static_cast<std::size_t>(rail.nics[static_cast<std::size_t>(from.number)])];
    if (nic.rdma.empty())
      return fmt::format("blocks of the host: {} sends host memory alone", nic.name());
    const auto how = [&](const Nic& one) { return how_far(*from.machine, place, one); };
    if (farthest == nullptr || how(nic) > how(*farthest)) farthest = &nic;
  }
  if (farthest == nullptr) return "blocks of the host";
  return fmt::format(
      "GPUDirect RDMA: {}; blocks if the port cannot register "
      "the GPU's memory",
      how_near(*from.machine, place, *farthest));
}

}  // namespace

bool has_gpus(const ShownMap& shown) {
  return std::ranges::any_of(shown.cluster.machines, [](const ClusterMachine& machine) {
    return !machine.hardware->gpus.empty();
  });
}

std::optional<GpuWay> gpu_way(const ShownMap& shown, const MappedEdge& edge) {
  const Seat from = seat_of(shown, edge.from), to = seat_of(shown, edge.to);
  if (from.gpu == nullptr || to.gpu == nullptr) return std::nullopt;
  return GpuWay{from.gpu->index, to.gpu->index,
                from.number == to.number ? way_inside(*from.machine, *from.gpu, *to.gpu)
                                         : way_between(shown, edge, from)};
}

}  // namespace weft
