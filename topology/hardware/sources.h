// What the sources of a Machine share. Internal to the module.
#pragma once

#include <filesystem>
#include <optional>

#include "topology/hardware/hardware.h"
#include "topology/hardware/hwloc_library.h"
#include "topology/hardware/left_out.h"
#include "topology/hardware/xml.h"

namespace weft::hardware {

// Of one kind, in a file: more than any machine has, so that what looks at pairs stays quick.
inline constexpr std::size_t kMostDevices = 4096;

// hwloc.cc
// Loaded with PCI devices and bridges; of this machine, an XML text, or a synthetic string. `name`
// stands for it in errors. XML has to come from pruned_xml.
[[nodiscard]] Result<Topology> load_live(const Hwloc& hwloc);
[[nodiscard]] Result<Topology> load_xml(const HwlocLibrary& library, const std::string& text,
                                        const std::string& name);
[[nodiscard]] Result<Topology> load_synthetic(const HwlocLibrary& library, const std::string& text);
// All that hwloc knows.
[[nodiscard]] Machine machine_of(const Topology& topology);
// Where "0000:3b:00.0" sits; hwloc may not know it.
[[nodiscard]] PciPlace place_of(const Topology& topology, const std::string& address);

// notes.cc: what hwloc's format has no place for, as objects of its kind "misc".
inline constexpr std::string_view kNotePrefix = "weft:";
void put_notes(const Topology& topology, const Machine& machine);
[[nodiscard]] bool has_notes(const Topology& topology);
// Takes them out again; false where there are none, and hwloc's own devices have to do.
[[nodiscard]] bool take_notes(const Topology& topology, Machine& machine);

// synthetic.cc: a string as hwloc takes it, checked and written anew, of bounded size.
[[nodiscard]] Result<std::string> written_synthetic(std::string_view text, const std::string& name);

// hwloc_xml.cc
// A file in hwloc's format as far as Weft needs it, checked, written so that every parser of
// hwloc's takes it; with our notes, or without.
enum class Notes : bool { dropped, kept };
[[nodiscard]] Result<std::string> pruned_xml(const XmlFile& file, Notes notes);
// What pruned_xml leaves out of such a file: links between GPUs, rates that are not possible.
void note_left_out(const XmlFile& file, LeftOut& left_out);

// nccl.cc
[[nodiscard]] Result<Machine> read_nccl(const XmlFile& file);

// live.cc
[[nodiscard]] Machine live_machine(const Topology& topology);
// This machine; without hwloc, with what sys_machine() has of it.
[[nodiscard]] Result<Machine> discover(const HwlocLibrary& library);

// file.cc: read_machine and export_machine.
[[nodiscard]] Result<Machine> read(const HwlocLibrary& library, const std::string& from);
[[nodiscard]] Result<std::string> exported(const HwlocLibrary& library, const std::string& from,
                                           const std::string& correct);

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
