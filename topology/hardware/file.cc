// Machines from files, told apart by what is in them.
#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "topology/hardware/sources.h"

namespace weft {
namespace {

using namespace hardware;

constexpr std::string_view kSynthetic = "synthetic:";
// The largest machines take a few megabytes.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

Result<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error("open " + path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.view().size() > kMostBytes)
    return Status(Code::invalid_argument, path + ": cannot be read, or is longer than 64 MiB");
  return std::move(text).str();
}

Result<Machine> from_text(const std::string& text, const std::string& name) {
  if (text.find("<topology") != std::string::npos) {
    WEFT_ASSIGN(const Topology topology, load_xml(text, name));
    return machine_of(topology.get());
  }
  if (text.find("<system") != std::string::npos) return parse_nccl(text, name);
  return Status(Code::invalid_argument,
                name +
                    ": neither hwloc's XML (<topology …>) nor a topology file of NCCL (<system "
                    "…>)");
}

Result<Machine> read(const std::string& from) {
  if (!from.starts_with(kSynthetic)) {
    WEFT_ASSIGN(const std::string text, text_of(from));
    return from_text(text, from);
  }
  WEFT_ASSIGN(const Topology topology, load_synthetic(from.substr(kSynthetic.size())));
  return machine_of(topology.get());
}

}  // namespace

Result<Machine> read_machine(const std::string& from) {
  WEFT_ASSIGN(Machine machine, read(from));
  machine.source = from;
  return machine;
}

}  // namespace weft
