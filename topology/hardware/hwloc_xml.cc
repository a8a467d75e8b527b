// hwloc's XML, before hwloc sees it. hwloc's own parser recurses as deep as a file says, takes memory
// for the highest number of a processor, and names no line; which of its two parsers is used depends
// on the plugins that are installed. So a file is parsed and checked here. hwloc gets a new text with
// the objects and their <info>, in its first format or its second: the library may be one of version
// 2, which does not read the third.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "topology/hardware/files.h"
#include "topology/hardware/hwloc_values.h"

namespace weft::hardware {
namespace {

// More than any machine has, and what takes hwloc about a second.
constexpr int kDeepest = 64;
constexpr int kMostObjects = 1 << 16;
constexpr int kMostInfos = 1 << 18;
constexpr std::int64_t kNone = -1;

// What may be in what, and what has to have sets of processors and nodes.
enum class Family : std::uint8_t { processors, memory, devices, notes };
struct Type {
  std::string_view name;
  Family family;
};
constexpr std::array kTypes{
    Type{"Machine", Family::processors},  Type{"Package", Family::processors},
    Type{"Socket", Family::processors},   Type{"Die", Family::processors},
    Type{"Group", Family::processors},    Type{"Core", Family::processors},
    Type{"PU", Family::processors},       Type{"Cache", Family::processors},
    Type{"L1Cache", Family::processors},  Type{"L2Cache", Family::processors},
    Type{"L3Cache", Family::processors},  Type{"L4Cache", Family::processors},
    Type{"L5Cache", Family::processors},  Type{"L1iCache", Family::processors},
    Type{"L2iCache", Family::processors}, Type{"L3iCache", Family::processors},
    Type{"NUMANode", Family::memory},     Type{"MemCache", Family::memory},
    Type{"Bridge", Family::devices},      Type{"PCIDev", Family::devices},
    Type{"OSDev", Family::devices},       Type{"Misc", Family::notes}};
struct Need {
  std::string_view type;
  const char* attribute;
};
constexpr std::array kNeeds{Need{"Bridge", "bridge_type"}, Need{"Bridge", "bridge_pci"},
                            Need{"PCIDev", "pci_busid"},   Need{"PCIDev", "pci_type"},
                            Need{"OSDev", "osdev_type"},   Need{"OSDev", "name"}};
constexpr std::array kNeededSets{"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};

class Pruner {
 public:
  Pruner(const XmlFile& file, Notes notes) : file_(file), keeps_notes_(notes == Notes::kept) {}

  Result<std::string> pruned() {
    const pugi::xml_node topology = file_.root();
    pugi::xml_document to;
    pugi::xml_node root = to.append_child("topology");
    WEFT_RETURN_IF_ERROR(take_format(topology));
    if (format_ != HwlocFormat::first) root.append_attribute("version") = "2.0";
    const pugi::xml_node machine = topology.child("object");
    if (!machine) return file_.wrong(topology, "<topology> has no <object>");
    WEFT_RETURN_IF_ERROR(copy(machine, root, 0));
    if (!has_processor_)
      return file_.wrong(machine, "no object of type PU: a machine has processors");
    std::ostringstream text;
    text << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc"
         << (format_ == HwlocFormat::first ? "" : "2") << ".dtd\">\n";
    root.print(text, "", pugi::format_raw);
    return std::move(text).str();
  }

 private:
  // Without a version it is the first.
  Status take_format(pugi::xml_node topology) {
    const std::string_view version = topology.attribute("version").as_string();
    if (version.empty() || version.starts_with("1.")) return {};
    if (!version.starts_with("2.") && !version.starts_with("3.")) {
      return file_.wrong(topology, fmt::format("version {} of hwloc's format is not known",
                                               version.substr(0, 24)));
    }
    format_ = version.starts_with("3.") ? HwlocFormat::third : HwlocFormat::second;
    return {};
  }

  Status copy(pugi::xml_node from, pugi::xml_node parent, int depth) {
    const std::string_view name = from.attribute("name").as_string();
    if (!keeps_notes_ && name.starts_with(kNotePrefix)) return {};
    if (depth > kDeepest) return file_.wrong(from, "objects are nested too deep");
    if (++objects_ > kMostObjects)
      return file_.wrong(from, fmt::format("more than {} objects", kMostObjects));
    pugi::xml_node to = parent.append_child("object");
    for (const HwlocAttribute& attribute : hwloc_attributes())
      WEFT_RETURN_IF_ERROR(copy_attribute(from, to, attribute));
    WEFT_RETURN_IF_ERROR(check_object(from));
    for (const pugi::xml_node note : from.children("info"))
      WEFT_RETURN_IF_ERROR(copy_info(note, to));
    for (const pugi::xml_node child : from.children("object"))
      WEFT_RETURN_IF_ERROR(copy(child, to, depth + 1));
    return {};
  }

  Status copy_attribute(pugi::xml_node from, pugi::xml_node to, const HwlocAttribute& attribute) {
    const pugi::xml_attribute given = from.attribute(attribute.name);
    if (!given) return {};
    WEFT_RETURN_IF_ERROR(check_value(file_, format_, from, attribute));
    if (attribute.kind == HwlocValue::rate && !is_hwloc_rate(given.value())) return {};
    to.append_attribute(attribute.name) =
        in_second_format(format_, attribute, given.value()).c_str();
    return {};
  }

  Status check_object(pugi::xml_node object) {
    const std::string_view name = object.attribute("type").as_string();
    const auto type = std::ranges::find(kTypes, name, &Type::name);
    if (type == kTypes.end()) {
      return file_.wrong(object, name.empty()
                                     ? "<object> needs a type"
                                     : fmt::format("type: {} is not known", name.substr(0, 24)));
    }
    if (!may_hold(object.parent(), *type))
      return file_.wrong(object, fmt::format("a {} cannot be here", name));
    if (const char* lacks = lacking(object, *type); lacks != nullptr)
      return file_.wrong(object, fmt::format("a {} needs {}", name, lacks));
    return name == "PU" || name == "NUMANode" ? check_number(object) : Status();
  }

  // The attribute that it should have; null: it has all.
  static const char* lacking(pugi::xml_node object, const Type& type) {
    const auto has = [object](const char* key) { return *object.attribute(key).value() != '\0'; };
    if (type.family < Family::devices) {
      const auto set = std::ranges::find_if_not(kNeededSets, has);
      return set == kNeededSets.end() ? nullptr : *set;
    }
    for (const Need& need : kNeeds) {
      if (need.type == type.name && !has(need.attribute)) return need.attribute;
    }
    const bool is_port = std::string_view(object.attribute("bridge_type").value()) == "1-1";
    return is_port && !has("pci_busid") ? "pci_busid" : nullptr;
  }

  static bool may_hold(pugi::xml_node parent, const Type& type) {
    const std::string_view above = parent.attribute("type").as_string();
    const bool is_top = std::string_view(parent.name()) == "topology";
    if (is_top || type.name == "Machine") return is_top && type.name == "Machine";
    const auto holder = std::ranges::find(kTypes, above, &Type::name);
    if (holder == kTypes.end()) return false;
    if (above == "PU") return type.family >= Family::devices;
    // Version 1 has processors in nodes of memory.
    return type.family >= holder->family || holder->name == "NUMANode";
  }

  // What hwloc counts by number: without one, it takes the highest that there is.
  Status check_number(pugi::xml_node object) {
    WEFT_ASSIGN(const std::int64_t index,
                file_.integer(object, "os_index", 0, kMostHwlocIndex, kNone));
    const std::string_view name = object.attribute("type").value();
    if (index == kNone) return file_.wrong(object, fmt::format("a {} needs os_index", name));
    has_processor_ = has_processor_ || name == "PU";
    return {};
  }

  Status copy_info(pugi::xml_node from, pugi::xml_node to) {
    if (++infos_ > kMostInfos)
      return file_.wrong(from, fmt::format("more than {} <info>", kMostInfos));
    WEFT_ASSIGN(const std::string key, file_.text(from, "name"));
    WEFT_ASSIGN(const std::string value, file_.text(from, "value"));
    pugi::xml_node note = to.append_child("info");
    note.append_attribute("name") = key.c_str();
    note.append_attribute("value") = value.c_str();
    return {};
  }

  const XmlFile& file_;
  bool keeps_notes_;
  HwlocFormat format_ = HwlocFormat::first;
  int objects_ = 0;
  int infos_ = 0;
  bool has_processor_ = false;
};

}  // namespace

// hwloc has links between GPUs as distances: "NVLinkBandwidth" and "XGMIBandwidth".
void note_left_out(const XmlFile& file, LeftOut& left_out) {
  for (const pugi::xml_node each : file.root().children()) {
    const bool is_distances = std::string_view(each.name()).starts_with("distances");
    const Result<std::string> name = file.text(each, "name");
    if (is_distances && name.ok() && name->ends_with("Bandwidth"))
      left_out.add("a matrix of links, which Weft does not read", *name);
  }
  for (const pugi::xpath_node each : file.root().select_nodes("//object[@pci_link_speed]")) {
    if (is_hwloc_rate(each.node().attribute("pci_link_speed").value())) continue;
    left_out.add("a rate that is not possible",
                 fmt::format("pci_link_speed of {}", each.node().attribute("pci_busid").value()));
  }
}

Result<std::string> pruned_xml(const XmlFile& file, Notes notes) {
  return Pruner(file, notes).pruned();
}

}  // namespace weft::hardware
