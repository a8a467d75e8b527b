// What reads machines from files and writes them. Internal to the module.
#pragma once

#include "topology/hardware/left_out.h"
#include "topology/hardware/sources.h"
#include "topology/hardware/xml.h"

namespace weft::hardware {

// notes.cc: what hwloc's format has no place for, as objects of its kind "misc".
inline constexpr std::string_view kNotePrefix = "weft:";
void put_notes(const Topology& topology, const Machine& machine);
[[nodiscard]] bool has_notes(const Topology& topology);
// Takes them out again, in the place of the devices that hwloc has.
void take_notes(const Topology& topology, Machine& machine);

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

// smi.cc: what `nvidia-smi topo -m` prints.
[[nodiscard]] bool is_smi(const std::string& text);
[[nodiscard]] Result<Machine> read_smi(const std::string& text, const std::string& name);

// file.cc: read_machine and export_machine.
[[nodiscard]] Result<Machine> read(const HwlocLibrary& library, const std::string& from);
[[nodiscard]] Result<std::string> exported(const HwlocLibrary& library, const std::string& from,
                                           const std::string& correct);

}  // namespace weft::hardware
