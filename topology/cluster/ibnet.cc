// What `ibnetdiscover` prints: for each switch and adapter a head with its identity and description, and a
// line for each of its links:
//
//   Ca      1 "H-0008f10403961354"          # "node0 mlx5_0"
//   [1](8f10403961355)      "S-005442ba00003080"[22]        # lid 4 lmc 0 "leaf 0" lid 6 4xEDR
//
// Hosts and their devices are in the descriptions. The k-th port of each host is on rail k. Leaves become a level of the
// rail where they have equally many hosts.
#include "topology/cluster/ibnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "topology/cluster/fabric.h"
#include "verbs/device/device.h"

namespace weft {
namespace {

constexpr std::size_t kMostHosts = 1 << 20;

struct Speed {
  std::string_view name;
  double gbit_per_s;  // of a lane, as the kernel tells rates
};
constexpr std::array kSpeeds{Speed{"SDR", 2.5},  Speed{"DDR", 5},   Speed{"QDR", 10},
                             Speed{"FDR10", 10}, Speed{"FDR", 14},  Speed{"EDR", 25},
                             Speed{"HDR", 50},   Speed{"NDR", 100}, Speed{"XDR", 200}};

// "4xEDR": 100. 0: another word.
double rate_in(const std::string& word) {
  int lanes = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, lanes);
  if (error != std::errc() || stop == end || (*stop != 'x' && *stop != 'X')) return 0;
  const std::string_view name(stop + 1, static_cast<std::size_t>(end - stop - 1));
  const auto speed = std::ranges::find(kSpeeds, name, &Speed::name);
  return speed == kSpeeds.end() || lanes < 1 || lanes > 16 ? 0 : lanes * speed->gbit_per_s;
}

struct Port {
  int number = 0;
  std::string peer;  // "S-0054…"
  double gbit_per_s = 0;
};
struct Node {
  std::size_t line = 0;
  std::string description;
  std::vector<Port> ports;
};

// The text between the first two quotation marks from there on.
std::string quoted(const std::string& line, std::size_t from) {
  const std::size_t open = line.find('"', from);
  const std::size_t close = open == std::string::npos ? open : line.find('"', open + 1);
  return close == std::string::npos ? std::string() : line.substr(open + 1, close - open - 1);
}

class IbnetReader {
 public:
  IbnetReader(const std::string& text, std::string name) : text_(text), name_(std::move(name)) {}

  Result<Cluster> read() {
    WEFT_RETURN_IF_ERROR(read_nodes());
    WEFT_RETURN_IF_ERROR(find_hosts());
    fabric_.source = name_;
    for (const auto& [identity, node] : switches_)
      fabric_.up_gbit_per_s[identity] = rate_to_switches(node);
    Cluster cluster = cluster_of(fabric_);
    cluster.remarks.insert(cluster.remarks.begin(), remarks_.begin(), remarks_.end());
    cluster.remarks.push_back(
        fmt::format("ibnetdiscover tells neither ranks nor latencies: one rank of each host, {} us",
                    fabric_.latency_us));
    return cluster;
  }

 private:
  [[nodiscard]] Status wrong(std::size_t line, const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}:{}: {}", name_, line, what));
  }

  Status read_nodes() {
    std::istringstream stream(text_);
    Node* node = nullptr;
    std::size_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      const bool is_switch = line.starts_with("Switch"),
                 is_adapter = line.starts_with("Ca\t") || line.starts_with("Ca ");
      if (is_switch || is_adapter || line.starts_with("Rt")) {
        const std::string identity = quoted(line, 0);
        if (identity.size() < 3)
          return wrong(number, "a node without an identity in quotation marks");
        node = &(is_adapter ? adapters_ : switches_)[identity];
        *node = {number, quoted(line, line.find('#')), {}};
        continue;
      }
      if (!line.starts_with('[')) continue;
      if (node == nullptr) return wrong(number, "a link before the node that it belongs to");
      WEFT_RETURN_IF_ERROR(add_port(*node, line, number));
    }
    if (adapters_.empty())
      return wrong(number, "no adapter (Ca): the file is cut short, or of something else");
    return {};
  }

  Status add_port(Node& node, const std::string& line, std::size_t number) const {
    Port port;
    std::from_chars(line.data() + 1, line.data() + line.size(), port.number);
    port.peer = quoted(line, 0);
    std::istringstream words(line.substr(std::min(line.find('#'), line.size())));
    for (std::string word; words >> word;)
      if (const double rate = rate_in(word); rate > 0) port.gbit_per_s = rate;
    if (port.peer.size() < 3 || port.number < 1)
      return wrong(number, "a link without its two ends");
    if (port.gbit_per_s <= 0) return wrong(number, "a link without a rate such as 4xEDR");
    node.ports.push_back(std::move(port));
    return {};
  }

  // "node0 mlx5_0". A description of more words is not a host's: it was not set.
  Status find_hosts() {
    std::map<std::string, FabricHost> hosts;
    for (const auto& [identity, node] : adapters_) {
      if (node.description.find("Aggregation Node") != std::string::npos) continue;  // of a switch
      std::istringstream stream(node.description);
      std::string name, device, more;
      stream >> name >> device >> more;
      if (device.empty() || !more.empty()) {
        name = identity;
        device = "HCA-1";
        unnamed_.insert(identity);
      }
      FabricHost& host = hosts[name];
      host.name = name;
      for (const Port& port : node.ports) {
        if (!port.peer.starts_with("S-")) continue;
        if (!switches_.contains(port.peer))
          return wrong(
              node.line,
              fmt::format("{} is linked to {}, which the file does not have: it is cut short", name,
                          port.peer));
        host.interfaces.push_back(
            {port.number == 1 ? device : fmt::format("{}:{}", device, port.number), port.gbit_per_s,
             port.peer});
      }
    }
    for (auto& [name, host] : hosts) {
      if (host.interfaces.empty()) continue;
      std::ranges::sort(host.interfaces, is_listed_before, &FabricInterface::name);
      fabric_.hosts.push_back(std::move(host));
    }
    if (fabric_.hosts.empty() || fabric_.hosts.size() > kMostHosts)
      return wrong(1, "no adapter is linked to a switch");
    // Hosts of a leaf are neighbors.
    std::ranges::sort(fabric_.hosts, [](const FabricHost& a, const FabricHost& b) {
      const std::string &one = a.interfaces[0].leaf, &other = b.interfaces[0].leaf;
      return one != other ? one < other : is_listed_before(a.name, b.name);
    });
    if (!unnamed_.empty()) {
      remarks_.push_back(
          fmt::format("{} adapters have no description of a host and go by their GUID: {}",
                      unnamed_.size(), *unnamed_.begin()));
    }
    return {};
  }

  static double rate_to_switches(const Node& node) {
    double gbit = 0;
    for (const Port& port : node.ports)
      if (port.peer.starts_with("S-")) gbit += port.gbit_per_s;
    return gbit;
  }

  const std::string& text_;
  std::string name_;
  std::map<std::string, Node> switches_, adapters_;  // by identity; routers count as switches
  std::set<std::string> unnamed_;
  std::vector<std::string> remarks_;
  HostFabric fabric_;
};

}  // namespace

bool is_ibnet(const std::string& text) {
  return text.find("\nSwitch\t") != std::string::npos || text.find("\nCa\t") != std::string::npos ||
         text.starts_with("#\n# Topology file: generated");
}

Result<Cluster> read_ibnet(const std::string& text, const std::string& name) {
  return IbnetReader(text, name).read();
}

}  // namespace weft
