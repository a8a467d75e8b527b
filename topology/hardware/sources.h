// What looks at this machine. Internal to the module.
#pragma once

#include <filesystem>
#include <optional>

#include "topology/hardware/hardware.h"
#include "topology/hardware/hwloc_library.h"

namespace weft::hardware {

// Of one kind, in a file: more than any machine has, so that what looks at pairs stays quick.
inline constexpr std::size_t kMostDevices = 4096;

// hwloc.cc
// To be loaded, with PCI devices and bridges.
[[nodiscard]] Result<Topology> made(const Hwloc& hwloc);
// This machine.
[[nodiscard]] Result<Topology> load_live(const Hwloc& hwloc);
// All that hwloc knows, without our notes.
[[nodiscard]] Machine machine_of(const Topology& topology);
// Where "0000:3b:00.0" sits; hwloc may not know it.
[[nodiscard]] PciPlace place_of(const Topology& topology, const std::string& address);

// live.cc
[[nodiscard]] Machine live_machine(const Topology& topology);
// This machine; without hwloc, with what sys_machine() has of it.
[[nodiscard]] Result<Machine> discover(const HwlocLibrary& library);

// sys.cc: where hwloc is missing, or must not look.
// The numbers of a list like "0-3,8", upwards; empty: there is none.
[[nodiscard]] std::vector<int> list_in(const std::filesystem::path& path);
// Processors, nodes of memory and GPUs, as the kernel lists them; no caches.
[[nodiscard]] Machine sys_machine(const std::string& sys = "/sys");
// Where "0000:3b:00.0" sits; the kernel may not know it.
[[nodiscard]] PciPlace sys_place(const Machine& machine, const std::string& address,
                                 const std::string& sys = "/sys");

// address.cc: "0000:3b:00.0" and "0000:3b", as the kernel writes what is meant; or that it is none.
[[nodiscard]] std::optional<std::string> pci_address(std::string_view text);
[[nodiscard]] std::optional<std::string> pci_bus(std::string_view text);

// contradictory.cc: what in this machine's /sys would make hwloc print a banner; empty: nothing.
[[nodiscard]] std::string contradiction_in(const std::string& sys = "/sys");

// unreadable.cc: this machine's /sys.
// Whether hwloc can read processors and nodes there; else it must not look.
[[nodiscard]] bool can_hwloc_read_processors(const std::string& sys = "/sys");
// What cannot be read there, for Machine::unreadable.
[[nodiscard]] std::vector<std::string> unreadable_in(const std::string& sys = "/sys");

// settle.cc: what is the same for all sources.
// Sorts devices, and puts those whose node is unknown on the machine's only one.
void settle(Machine& machine);
// Whether there are two of one name; the error's text has no file.
[[nodiscard]] Status check_names(const Machine& machine);

// nvml.cc: GPUs and NVLink of this machine, where NVIDIA's library is.
void ask_nvml(Machine& machine);

}  // namespace weft::hardware
