// Files of sysfs, one value each. A file that is missing or cannot be read is an absent value:
// drivers differ in what they offer.
#include "verbs/device/device.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace weft {
namespace {

namespace fs = std::filesystem;

// ARPHRD_… of <linux/if_arp.h>, as /sys/class/net/*/type has them.
constexpr int kEthernet = 1;
constexpr int kInfiniband = 32;
constexpr int kLoopback = 772;

std::string text(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int number(const fs::path& path, int otherwise) {
  const std::string line = text(path);
  int value = otherwise;
  std::from_chars(line.data(), line.data() + line.size(), value);
  return value;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    found.push_back(at->path());
  }
  std::ranges::sort(found);
  return found;
}

std::string kind_of(const fs::path& folder) {
  const int type = number(folder / "type", 0);
  std::error_code error;
  if (type == kLoopback) return "loopback";
  if (type == kInfiniband) return "infiniband";
  if (type == kEthernet && fs::exists(folder / "device", error)) return "ethernet";
  return "virtual";
}

void judge(NetworkInterface& interface, const std::string& state, int carrier) {
  if (interface.kind == "loopback") {
    interface.reason = "reaches only this machine; shared memory is faster";
  } else if (state == "down") {
    interface.reason = "is down (ip link set " + interface.name + " up)";
  } else if (carrier == 0) {
    interface.reason = "has no carrier: cable, switch port or peer";
  } else {
    interface.usable = true;
    interface.reason = "is up";
  }
}

// An unset GID is all zeros and colons.
int gids_of(const fs::path& port) {
  int count = 0;
  for (const fs::path& gid : entries(port / "gids")) {
    if (text(gid).find_first_not_of("0:") != std::string::npos) ++count;
  }
  return count;
}

void judge(RdmaPort& port) {
  if (port.state != "ACTIVE") {
    port.reason = "state is " + (port.state.empty() ? "unknown" : port.state);
  } else if (port.gids == 0) {
    port.reason = "has no address (GID): give its network interface one";
  } else {
    port.usable = true;
    port.reason = "is active";
  }
}

RdmaPort port_of(const fs::path& device, const fs::path& folder) {
  RdmaPort port;
  port.device = device.filename();
  const std::string index = folder.filename();
  std::from_chars(index.data(), index.data() + index.size(), port.port);
  port.link_layer = text(folder / "link_layer");
  const std::string state = text(folder / "state");  // "4: ACTIVE"
  const std::size_t colon = state.find(": ");
  port.state = colon == std::string::npos ? state : state.substr(colon + 2);
  port.rate = text(folder / "rate");
  port.gids = gids_of(folder);
  port.numa_node = number(device / "device" / "numa_node", -1);
  judge(port);
  return port;
}

}  // namespace

std::vector<NetworkInterface> discover_interfaces(const std::string& sys) {
  std::vector<NetworkInterface> found;
  for (const fs::path& folder : entries(fs::path(sys) / "class" / "net")) {
    NetworkInterface interface;
    interface.name = folder.filename();
    interface.kind = kind_of(folder);
    interface.address = text(folder / "address");
    interface.mtu = number(folder / "mtu", 0);
    interface.mbit_per_s = number(folder / "speed", -1);
    interface.numa_node = number(folder / "device" / "numa_node", -1);
    judge(interface, text(folder / "operstate"), number(folder / "carrier", 0));
    found.push_back(std::move(interface));
  }
  return found;
}

std::vector<RdmaPort> discover_rdma_ports(const std::string& sys) {
  std::vector<RdmaPort> found;
  for (const fs::path& device : entries(fs::path(sys) / "class" / "infiniband")) {
    for (const fs::path& folder : entries(device / "ports")) {
      found.push_back(port_of(device, folder));
    }
  }
  return found;
}

}  // namespace weft
