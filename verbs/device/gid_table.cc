// gids/I, gid_attrs/types/I and gid_attrs/ndevs/I of a port's folder.
#include "verbs/device/gid_table.h"

#include <algorithm>
#include <optional>

#include "verbs/device/gid_bytes.h"
#include "verbs/device/sysfs.h"

namespace weft::device {
namespace {

namespace fs = std::filesystem;

// What the kernel says of an entry beyond its bytes.
struct Origin {
  bool is_ethernet = true;
  std::string type;  // "IB/RoCE v1", "RoCE v2"; empty: no gid_attrs, or not readable
};

// The prefix of the GID's address on its interface; -1: that interface does not have it.
int prefix_on_netdev(const RdmaGid& gid, const std::vector<InterfaceAddress>& addresses) {
  const auto found = std::ranges::find_if(addresses, [&gid](const InterfaceAddress& address) {
    return address.netdev == gid.netdev && address.bytes == gid.bytes;
  });
  return found == addresses.end() ? -1 : found->prefix_bits;
}

// Why the GID is no address of its network interface; empty: it is.
std::string address_fault(const RdmaGid& gid, const RdmaSources& from) {
  if (from.addresses.empty() || gid.prefix_bits >= 0) return {};
  if (gid.link_local)
    return "made by the card; " + gid.netdev +
           " lacks this address: IPv6 is off there, or makes others";
  return "no address of " + gid.netdev + " in this network namespace (any more)";
}

bool lacks_carrier(const std::string& netdev, const RdmaSources& from) {
  return number(fs::path(from.sys) / "class" / "net" / netdev / "carrier", 1) == 0;
}

// Whether packets leave from this GID. The kernel finds the peer's Ethernet address by the route
// from this address over its interface, as for any other packet.
void judge(RdmaGid& gid, const RdmaSources& from) {
  gid.usable = true;
  if (gid.kind == GidKind::infiniband || gid.netdev.empty()) return;
  const std::string down = netdev_fault(gid.netdev, from);
  const std::string absent = address_fault(gid, from);
  gid.reason = down.empty() ? absent : down;
  gid.usable = gid.reason.empty();
  gid.lacks_carrier = absent.empty() && lacks_carrier(gid.netdev, from);
}

GidKind kind_of(const Origin& origin) {
  if (!origin.is_ethernet) return GidKind::infiniband;
  return origin.type == "RoCE v2" ? GidKind::roce_v2 : GidKind::roce_v1;
}

// Nothing for an entry that is not set, or went while we read.
std::optional<RdmaGid> read_gid(const fs::path& port, const std::string& index, bool is_ethernet,
                                const RdmaSources& from) {
  RdmaGid gid;
  gid.text = text(port / "gids" / index);
  const std::optional<GidBytes> bytes = parse_ip(gid.text);
  if (!bytes || *bytes == GidBytes{}) return {};
  const Origin origin{.is_ethernet = is_ethernet,
                      .type = text(port / "gid_attrs" / "types" / index)};
  gid.index = number_in(index, 0);
  gid.bytes = *bytes;
  gid.kind = kind_of(origin);
  gid.netdev = text(port / "gid_attrs" / "ndevs" / index);
  gid = judged(std::move(gid), from);
  if (!is_ethernet || !origin.type.empty()) return gid;
  gid.usable = gid.lacks_carrier = false;
  gid.reason =
      "the kernel does not tell its RoCE version (gid_attrs/types is missing or unreadable)";
  return gid;
}

}  // namespace

std::vector<RdmaGid> read_gids(const fs::path& port, const std::string& link_layer,
                               const RdmaSources& from) {
  std::vector<RdmaGid> found;
  for (const fs::path& entry : entries(port / "gids")) {
    auto gid = read_gid(port, entry.filename(), link_layer == "Ethernet", from);
    if (gid) found.push_back(*std::move(gid));
  }
  return found;
}

std::string first_netdev(const fs::path& port) {
  const fs::path table = port / "gid_attrs" / "ndevs";
  for (int index = 0; is_there(table / std::to_string(index)); ++index) {
    if (std::string name = text(table / std::to_string(index)); !name.empty()) return name;
  }
  return {};
}

std::string netdev_fault(const std::string& netdev, const RdmaSources& from) {
  const fs::path folder = fs::path(from.sys) / "class" / "net" / netdev;
  if (!is_there(folder))
    return netdev +
           " is not in this network namespace (a container shares the host's with "
           "--network host)";
  // An interface without a carrier may call itself down, too. One that was set down does not tell
  // whether it has a carrier.
  if (lacks_carrier(netdev, from)) return netdev + " has no carrier: cable, switch port or peer";
  if (text(folder / "operstate") == "down")
    return netdev + " is down (ip link set " + netdev + " up)";
  return {};
}

}  // namespace weft::device

namespace weft {

RdmaGid judged(RdmaGid gid, const RdmaSources& from) {
  gid.ip = device::ip_text(gid.bytes);
  gid.prefix_bits = device::prefix_on_netdev(gid, from.addresses);
  gid.link_local = device::is_link_local(gid.bytes);
  device::judge(gid, from);
  if (!gid.usable) return gid;
  if (gid.kind == GidKind::infiniband) {
    gid.reason = "address within the InfiniBand fabric";
  } else if (gid.kind == GidKind::roce_v1) {
    gid.reason = "RoCE v1: only within one Ethernet segment";
  } else if (gid.link_local) {
    gid.reason = "link-local: only within one Ethernet segment";
  } else {
    gid.reason = gid.netdev.empty() ? "its network interface is unknown" : "is set and up";
  }
  return gid;
}

}  // namespace weft
