// Network interfaces.
#include "verbs/device/device.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "verbs/device/gid_bytes.h"
#include "verbs/device/sysfs.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using device::number;
using device::text;

// ARPHRD_… of <linux/if_arp.h>, as /sys/class/net/*/type has them.
constexpr int kEthernet = 1;
constexpr int kInfiniband = 32;
constexpr int kLoopback = 772;

// IFF_NOARP of <linux/if.h>, as /sys/class/net/*/flags has it.
constexpr int kResolvesNothing = 0x80;

// Of what leads nowhere: a machine may have hundreds.
constexpr std::size_t kMostNamed = 8;

// The value of DEVTYPE in what the kernel tells udev: "bond", "vlan", "vxlan", "wlan", …
std::string told_type(const fs::path& folder) {
  std::ifstream file(folder / "uevent");
  constexpr std::string_view kKey = "DEVTYPE=";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) return line.substr(kKey.size());
  }
  return {};
}

// What no card is behind. A veth is one by its other end, which has another number.
std::string virtual_kind_of(const fs::path& folder, int type) {
  if (device::is_there(folder / "bonding")) return "bond";
  if (device::is_there(folder / "tun_flags")) return "tun";
  if (std::string told = told_type(folder); !told.empty()) return told;
  if (type != kEthernet) return "virtual";
  if ((number(folder / "flags", 0) & kResolvesNothing) != 0) return "dummy";
  const int own = number(folder / "ifindex", 0);
  return number(folder / "iflink", own) != own ? "veth" : "virtual";
}

std::string kind_of(const fs::path& folder) {
  const int type = number(folder / "type", 0);
  if (type == kLoopback) return "loopback";
  if (device::is_there(folder / "bridge")) return "bridge";
  if (type == kInfiniband) return "infiniband";
  if (type == kEthernet && device::is_there(folder / "device")) return "ethernet";
  return virtual_kind_of(folder, type);
}

// Why it leads nowhere, whatever its state; empty: it may lead out.
std::string dead_end(const NetworkInterface& interface, const fs::path& folder) {
  if (interface.kind == "loopback") return "reaches only this machine; shared memory is faster";
  if (interface.kind == "bridge")
    return "joins other interfaces of this host; often not what its network's name says";
  if (interface.kind == "dummy") return "resolves no address: nothing is behind it (dummy, ifb)";
  if (!interface.is_card() && device::is_there(folder / "master" / "bridge"))
    return "is a port of the bridge " + device::target_name(folder / "master");
  return {};
}

void judge(NetworkInterface& interface, const fs::path& folder) {
  if (!device::is_there(folder)) {
    interface.reason = "unknown, because " + folder.string() + " leads nowhere";
    return;
  }
  interface.reason = dead_end(interface, folder);
  if (!interface.reason.empty()) return;
  if (interface.state == "down") {
    interface.reason = "is down (ip link set " + interface.name + " up)";
  } else if (number(folder / "carrier", 0) == 0) {
    interface.reason = "has no carrier: cable, switch port or peer";
  } else {
    interface.usable = true;
    interface.reason = "is up";
  }
}

// The address that UCX's TCP takes of an interface: IPv4 first. It needs one that names the interface
// by itself, so link-local IPv6 is none.
void find_address(NetworkInterface& interface, const std::vector<InterfaceAddress>& addresses) {
  const InterfaceAddress* chosen = nullptr;
  for (const InterfaceAddress& address : addresses) {
    const bool is_v4 = device::is_ipv4(address.bytes);
    if (address.netdev != interface.name || (!is_v4 && device::is_link_local(address.bytes)))
      continue;
    if (chosen == nullptr || (is_v4 && !device::is_ipv4(chosen->bytes))) chosen = &address;
  }
  if (chosen != nullptr) {
    interface.ip = device::ip_text(chosen->bytes) + '/' + std::to_string(chosen->prefix_bits);
    interface.network = device::subnet_text(chosen->bytes, chosen->prefix_bits);
  } else if (interface.usable) {
    interface.usable = false;
    interface.reason =
        "has no address that TCP could use: give it an IPv4 or a global IPv6 address "
        "(ip addr add)";
  }
}

}  // namespace

std::string why_unreadable(const std::string& folder, const std::string& sys) {
  const fs::path root(sys), whole = root / folder;
  const auto is_in_root = [&root](const char* name) { return device::is_there(root / name); };
  if (!is_in_root("class") && !is_in_root("devices") && !is_in_root("bus"))
    return sys + " is not mounted";
  if (!device::is_there(whole)) return whole.string() + " is not there";
  const std::vector<fs::path> entries = device::entries(whole);
  if (entries.empty()) return whole.string() + " is empty";
  std::string names;
  std::size_t lost = 0;
  for (const fs::path& entry : entries) {
    if (device::is_there(entry)) continue;
    if (++lost <= kMostNamed) names += (names.empty() ? "" : ", ") + entry.filename().string();
  }
  if (lost == 0) return {};
  if (lost > kMostNamed) names += " and " + std::to_string(lost - kMostNamed) + " more";
  return names + " in " + whole.string() + (lost == 1 ? " leads nowhere" : " lead nowhere");
}

// The kernel lists one at least, the loopback.
std::string why_no_interfaces(const std::string& sys) {
  const std::string why = why_unreadable("class/net", sys);
  if (why.empty()) return "no network interface is up and has an IPv4 or a global IPv6 address";
  return "which network interfaces there are is not known, because " + why;
}

std::vector<NetworkInterface> discover_interfaces(const std::string& sys,
                                                  const std::vector<InterfaceAddress>& addresses) {
  std::vector<NetworkInterface> found;
  std::error_code error;
  for (const fs::path& folder : device::entries(fs::path(sys) / "class" / "net")) {
    if (fs::is_regular_file(folder, error)) continue;  // bonding_masters
    NetworkInterface interface;
    interface.name = folder.filename();
    interface.kind = kind_of(folder);
    interface.address = text(folder / "address");
    interface.state = text(folder / "operstate");
    interface.pci = device::pci_address(folder / "device");
    interface.mtu = number(folder / "mtu", 0);
    interface.mbit_per_s = number(folder / "speed", -1);
    interface.numa_node = number(folder / "device" / "numa_node", -1);
    interface.physical_function = device::pci_address(folder / "device" / "physfn");
    interface.is_virtual_function =
        !interface.physical_function.empty() || device::is_there(folder / "device" / "physfn");
    if (device::is_there(folder / "master" / "bonding"))
      interface.bond = device::target_name(folder / "master");
    judge(interface, folder);
    if (!addresses.empty()) find_address(interface, addresses);
    found.push_back(std::move(interface));
  }
  return found;
}

Status carrier(const std::string& interface) {
  ifreq request{};
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0)
    return Status(Code::unavailable, interface + " is not there any more");
  if ((request.ifr_flags & IFF_UP) == 0) return Status(Code::unavailable, interface + " is down");
  if ((request.ifr_flags & IFF_RUNNING) == 0)
    return Status(Code::unavailable, interface + " has no carrier");
  return {};
}

}  // namespace weft
