// Machines from files, whose content says which format they have, and back into a file.
#include <fmt/format.h>

#include <algorithm>

#include "topology/hardware/files.h"
#include "topology/text/text.h"

namespace weft {
namespace {

using namespace hardware;

constexpr std::string_view kSynthetic = "synthetic:";
// The largest machines take a few megabytes.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// As `lstopo --no-io` writes it, or a program that did not ask hwloc for them.
constexpr const char* kNoDevices =
    "which network interfaces and GPUs there are, because the file has no devices of any kind";

Status not_a_machine(const std::string& name) {
  return Status(Code::invalid_argument, name + ": hwloc cannot read it as a machine");
}

Status cannot_be_read(const std::string& name, const HwlocLibrary& library) {
  const Status why = library.status();
  return Status(why.code(), fmt::format("{}: {}", name, why.text()));
}

Result<Topology> load_xml(const HwlocLibrary& library, const std::string& text,
                          const std::string& name) {
  if (!library.ok()) return cannot_be_read(name, library);
  const Hwloc& hwloc = **library;
  WEFT_ASSIGN(Topology topology, made(hwloc));
  if (hwloc.set_xmlbuffer(topology.get(), text.c_str(), static_cast<int>(text.size()) + 1) != 0 ||
      hwloc.load(topology.get()) != 0 || topology.count(HWLOC_OBJ_PU) == 0)
    return not_a_machine(name);
  return topology;
}

Result<Topology> load_synthetic(const HwlocLibrary& library, const std::string& text) {
  const std::string name = fmt::format("synthetic:{}", std::string_view(text).substr(0, 256));
  WEFT_ASSIGN(const std::string written, written_synthetic(text, name));
  if (!library.ok()) return cannot_be_read(name, library);
  const Hwloc& hwloc = **library;
  WEFT_ASSIGN(Topology topology, made(hwloc));
  if (hwloc.set_synthetic(topology.get(), written.c_str()) != 0 || hwloc.load(topology.get()) != 0)
    return not_a_machine(name);
  return topology;
}

bool tells_devices(const Topology& topology) {
  return topology.count(HWLOC_OBJ_PCI_DEVICE) > 0 || topology.count(HWLOC_OBJ_OS_DEVICE) > 0 ||
         has_notes(topology);
}

Result<std::string> text_in(const std::string& path) {
  WEFT_ASSIGN(std::string text, read_text(path, kMostBytes));
  if (text.empty()) return Status(Code::invalid_argument, path + ": is empty");
  return text;
}

bool is_nccl(const XmlFile& file) {
  return std::string_view(file.root().name()) == "system";
}

// Nothing of hwloc's where the file is NCCL's.
Result<Topology> topology_in(const HwlocLibrary& library, const XmlFile& file,
                             const std::string& path, Notes notes) {
  const std::string_view kind = file.root().name();
  if (kind != "topology") {
    return file.wrong(file.root(), fmt::format("<{}> is neither hwloc's <topology> nor NCCL's "
                                               "<system>",
                                               kind.substr(0, 64)));
  }
  WEFT_ASSIGN(const std::string xml, pruned_xml(file, notes));
  return load_xml(library, xml, path);
}

// With our notes in the place of hwloc's devices, if there are any.
Machine noted_machine(const Topology& topology) {
  Machine machine = machine_of(topology);
  if (has_notes(topology)) take_notes(topology, machine);
  return machine;
}

Result<Machine> machine_in(const HwlocLibrary& library, const std::string& from) {
  if (from.starts_with(kSynthetic)) {
    WEFT_ASSIGN(const Topology topology, load_synthetic(library, from.substr(kSynthetic.size())));
    return noted_machine(topology);
  }
  WEFT_ASSIGN(const std::string text, text_in(from));
  if (is_smi(text)) return read_smi(text, from);
  WEFT_ASSIGN(const XmlFile file, XmlFile::parse(text, from));
  if (is_nccl(file)) return read_nccl(file);
  WEFT_ASSIGN(const Topology topology, topology_in(library, file, from, Notes::kept));
  Machine machine = noted_machine(topology);
  if (!tells_devices(topology)) machine.unreadable.emplace_back(kNoDevices);
  LeftOut left_out;
  note_left_out(file, left_out);
  for (std::string& phrase : left_out.phrases()) machine.left_out.push_back(std::move(phrase));
  return machine;
}

// What a machine is written into: all of hwloc's, nothing of ours.
Result<Topology> bare_topology(const HwlocLibrary& library, const std::string& from) {
  if (from.empty()) return library.ok() ? load_live(**library) : library.status();
  if (from.starts_with(kSynthetic)) return load_synthetic(library, from.substr(kSynthetic.size()));
  WEFT_ASSIGN(const std::string text, text_in(from));
  std::string_view what = "what nvidia-smi prints";
  if (!is_smi(text)) {
    WEFT_ASSIGN(const XmlFile file, XmlFile::parse(text, from));
    if (!is_nccl(file)) return topology_in(library, file, from, Notes::dropped);
    what = "a topology file of NCCL";
  }
  return Status(
      Code::invalid_argument,
      fmt::format("{}: {} tells neither cores nor caches, without which hwloc has no machine", from,
                  what));
}

}  // namespace

Result<Machine> hardware::read(const HwlocLibrary& library, const std::string& from) {
  WEFT_ASSIGN(Machine machine, machine_in(library, from));
  machine.source = from;
  settle(machine);
  if (const Status status = check_names(machine); !status.ok())
    return Status(status.code(), fmt::format("{}: {}", from, status.text()));
  return machine;
}

Result<std::string> hardware::exported(const HwlocLibrary& library, const std::string& from,
                                       const std::string& correct) {
  WEFT_ASSIGN(const Topology topology, bare_topology(library, from));
  Result<Machine> machine = from.empty() ? live_machine(topology) : read(library, from);
  if (!machine.ok()) return machine.status();
  if (!correct.empty()) WEFT_RETURN_IF_ERROR(correct_machine(*machine, correct));
  put_notes(topology, *machine);
  char* text = nullptr;
  int bytes = 0;
  if (topology.hwloc().export_xmlbuffer(topology.get(), &text, &bytes, 0) != 0)
    return Status(Code::system, "hwloc cannot write this machine as XML");
  std::string xml(text, static_cast<std::size_t>(std::max(bytes - 1, 0)));
  topology.hwloc().free_xmlbuffer(topology.get(), text);
  return xml;
}

Result<Machine> read_machine(const std::string& from) {
  return read(hwloc_library(), from);
}

Result<std::string> export_machine(const std::string& from, const std::string& correct) {
  return exported(hwloc_library(), from, correct);
}

}  // namespace weft
