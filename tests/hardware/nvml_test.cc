// GPUs from a scripted management library: four of them, 0 and 1 on two lanes, 2 on a switch.
#include "topology/hardware/nvml.h"

#include <cstring>

#include "tests/hardware/machines.h"

namespace weft {
namespace {

using namespace hardware;

int index_of(Nvml::Device device) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}

Nvml scripted() {
  Nvml nvml{};
  nvml.count = [](std::uint32_t* count) {
    *count = 3;
    return 0;
  };
  nvml.by_index = [](std::uint32_t index, Nvml::Device* device) {
    *device = reinterpret_cast<Nvml::Device>(std::uintptr_t{index} + 1);
    return 0;
  };
  nvml.model = [](Nvml::Device, char* text, std::uint32_t bytes) {
    std::strncpy(text, "NVIDIA H100", bytes);
    return 0;
  };
  nvml.memory = [](Nvml::Device, NvmlMemory* memory) {
    memory->total = std::uint64_t{80} << 30;
    return 0;
  };
  nvml.pci = [](Nvml::Device device, NvmlPci* pci) {
    pci->bus = static_cast<std::uint32_t>(0x10 + index_of(device));
    return 0;
  };
  nvml.link_state = [](Nvml::Device device, std::uint32_t link, std::uint32_t* active) {
    *active = link < (index_of(device) == 2 ? 4U : 2U) ? 1 : 0;
    return 0;
  };
  nvml.link_version = [](Nvml::Device, std::uint32_t, std::uint32_t* version) {
    *version = 4;
    return 0;
  };
  nvml.link_peer = [](Nvml::Device device, std::uint32_t, NvmlPci* pci) {
    const int index = index_of(device);
    pci->bus = index == 2 ? 0x80U : static_cast<std::uint32_t>(0x10 + 1 - index);
    return 0;
  };
  return nvml;
}

TEST(NvmlGpus, LanesToOnePeerAreOneLink) {
  Machine machine;
  ask(scripted(), machine);
  ASSERT_EQ(machine.gpus.size(), 3U);
  EXPECT_EQ(machine.gpus[2].model, "NVIDIA H100");
  EXPECT_EQ(machine.gpus[2].place.address, "0000:12:00.0");
  ASSERT_EQ(machine.gpu_links.size(), 3U);
  EXPECT_EQ(machine.gpu_links[0].peer, 1);
  EXPECT_EQ(machine.gpu_links[0].lanes, 2);
  EXPECT_EQ(machine.gpu_links[0].gbyte_per_s, 50);
  EXPECT_EQ(machine.gpu_links[2].peer, GpuLink::kSwitch);
  EXPECT_EQ(machine.gpu_links[2].lanes, 4);
}

TEST(NvmlGpus, AreKnownByTheirNumbersThatNeverChange) {
  Machine machine;
  Nvml nvml = scripted();
  ask(nvml, machine);
  EXPECT_EQ(machine.gpus[0].uuid, "") << "an old library";
  nvml.uuid = [](Nvml::Device device, char* text, std::uint32_t bytes) {
    const int index = index_of(device);
    std::snprintf(text, bytes, "%s-%d", index < 100 ? "GPU" : "MIG", index);
    return 0;
  };
  nvml.most_migs = [](Nvml::Device device, std::uint32_t* count) {
    *count = index_of(device) == 1 ? 2 : 0;
    return 0;
  };
  nvml.mig_by_index = [](Nvml::Device, std::uint32_t index, Nvml::Device* mig) {
    *mig = reinterpret_cast<Nvml::Device>(std::uintptr_t{index} + 101);
    return index == 0 ? 0 : 1;  // there may be fewer than the most
  };
  ask(nvml, machine);
  EXPECT_EQ(machine.gpus[1].uuid, "GPU-1");
  EXPECT_EQ(machine.gpus[1].mig_uuids, std::vector<std::string>{"MIG-100"});
  EXPECT_TRUE(machine.gpus[0].mig_uuids.empty());
}

TEST(NvmlGpus, KeepWhereHwlocFoundThemAndOtherMakersFollow) {
  Machine machine;
  Gpu other, known;
  other.model = "of another maker";
  other.place.address = "0000:99:00.0";
  known.place.address = "0000:11:00.0";
  known.place.numa_node = 1;
  machine.gpus = {other, known};
  ask(scripted(), machine);
  ASSERT_EQ(machine.gpus.size(), 4U);
  EXPECT_EQ(machine.gpus[1].place.numa_node, 1);
  EXPECT_EQ(machine.gpus[3].model, "of another maker");
  EXPECT_EQ(machine.gpus[3].index, 3);
}

TEST(NvmlGpus, ALibraryThatRefusesTellsNothing) {
  Nvml nvml = scripted();
  nvml.count = [](std::uint32_t*) { return 999; };
  Machine machine;
  machine.gpus.resize(2);
  ask(nvml, machine);
  EXPECT_EQ(machine.gpus.size(), 2U);
  EXPECT_FALSE(machine.are_gpu_links_known);
}

}  // namespace
}  // namespace weft
