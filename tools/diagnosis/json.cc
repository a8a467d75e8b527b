// One list of fields for each struct, for both directions.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "tools/diagnosis/facts.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

template <class Archive>
void fields(Archive& is, PciLink& link) {
  is("address", link.address);
  is("gt_per_s", link.gt_per_s);
  is("most_gt_per_s", link.most_gt_per_s);
  is("lanes", link.lanes);
  is("most_lanes", link.most_lanes);
}
template <class Archive>
void fields(Archive& is, PciFacts& pci) {
  is("address", pci.address);
  is("links", pci.links);
  is("node", pci.node);
  is("relaxed_ordering", pci.relaxed_ordering);
  is("iommu", pci.iommu);
}
template <class Archive>
void fields(Archive& is, GidFacts& gid) {
  is("index", gid.index);
  is("kind", gid.kind);
  is("ip", gid.ip);
  is("usable", gid.usable);
}
template <class Archive>
void fields(Archive& is, NicFacts& nic) {
  is("name", nic.name);
  is("rdma", nic.rdma);
  is("netdev", nic.netdev);
  is("kind", nic.kind);
  is("link_layer", nic.link_layer);
  is("state", nic.state);
  is("phys_state", nic.phys_state);
  is("rate", nic.rate);
  is("mbit_per_s", nic.mbit_per_s);
  is("most_mbit_per_s", nic.most_mbit_per_s);
  is("mtu", nic.mtu);
  is("ip", nic.ip);
  is("network", nic.network);
  is("is_routed", nic.is_routed);
  is("gids", nic.gids);
  is("bond", nic.bond);
  is("is_virtual_function", nic.is_virtual_function);
  is("usable", nic.usable);
  is("reason", nic.reason);
  is("device_file", nic.device_file);
  is("device_error", nic.device_error);
  is("driver", nic.driver);
  is("firmware", nic.firmware);
  is("board", nic.board);
  is("pci", nic.pci);
  is("pfc", nic.pfc);
  is("pause", nic.pause);
  is("ecn", nic.ecn);
  is("rp_filter", nic.rp_filter);
  is("arp_ignore", nic.arp_ignore);
  is("arp_announce", nic.arp_announce);
}
template <class Archive>
void fields(Archive& is, GpuFacts& gpu) {
  is("index", gpu.index);
  is("model", gpu.model);
  is("is_nvidia", gpu.is_nvidia);
  is("pci", gpu.pci);
}
template <class Archive>
void fields(Archive& is, PeerFacts& peer) {
  is("gpu", peer.gpu);
  is("nic", peer.nic);
  is("has_common_bridge", peer.has_common_bridge);
  is("redirecting", peer.redirecting);
  is("is_translated", peer.is_translated);
  is("is_behind_iommu", peer.is_behind_iommu);
}
template <class Archive>
void fields(Archive& is, RankFacts& rank) {
  is("rank", rank.rank);
  is("cpus", rank.cpus);
  is("gpu", rank.gpu);
}
template <class Archive>
void fields(Archive& is, NodeFacts& node) {
  is("index", node.index);
  is("cpus", node.cpus);
}
template <class Archive>
void fields(Archive& is, Look& look) {
  is("at_ns", look.at_ns);
  is("counters", look.counters);
}
template <class Archive>
void fields(Archive& is, NotChecked& what) {
  is("what", what.what);
  is("why", what.why);
}
template <class Archive>
void fields(Archive& is, HostFacts& host) {
  is("format", host.format);
  is("weft", host.weft);
  is("host", host.host);
  is("boot", host.boot);
  is("kernel", host.kernel);
  is("is_root", host.is_root);
  is("can_lock", host.can_lock);
  is("locked_bytes", host.locked_bytes);
  is("files", host.files);
  is("processes", host.processes);
  is("address_bytes", host.address_bytes);
  is("cpu_quota", host.cpu_quota);
  is("throttled", host.throttled);
  is("cpus", host.cpus);
  is("memory_bytes", host.memory_bytes);
  is("huge_page_bytes", host.huge_page_bytes);
  is("huge_pages", host.huge_pages);
  is("huge_pages_free", host.huge_pages_free);
  is("huge_shared", host.huge_shared);
  is("shm_bytes", host.shm_bytes);
  is("shm_free", host.shm_free);
  is("nodes", host.nodes);
  is("nics", host.nics);
  is("gpus", host.gpus);
  is("peers", host.peers);
  is("has_nvidia", host.has_nvidia);
  is("has_peermem", host.has_peermem);
  is("dma_buf", host.dma_buf);
  is("versions", host.versions);
  is("interfaces", host.interfaces);
  is("traffic_class", host.traffic_class);
  is("gid_index", host.gid_index);
  is("clock_ns", host.clock_ns);
  is("is_clock_synchronized", host.is_clock_synchronized);
  is("ranks", host.ranks);
  is("before", host.before);
  is("now", host.now);
  is("not_checked", host.not_checked);
}

class Writer {
 public:
  template <class T>
  void operator()(const char* name, T& value) {
    object_[name] = json(value);
  }
  template <class T>
  [[nodiscard]] static Json json(T& value) {
    if constexpr (std::is_class_v<T>) {
      Writer writer;
      fields(writer, value);
      return std::move(writer.object_);
    } else {
      return value;
    }
  }
  static Json json(std::string& value) { return value; }
  template <class T>
  static Json json(std::vector<T>& values) {
    Json array = Json::array();
    for (T& value : values) array.push_back(json(value));
    return array;
  }
  template <class T>
  static Json json(std::map<std::string, T>& values) {
    Json object = Json::object();
    for (auto& [name, value] : values) object[name] = json(value);
    return object;
  }

 private:
  Json object_ = Json::object();
};

// What is absent keeps its default, so that facts of an older version can be read.
class Reader {
 public:
  template <class T>
  void operator()(const char* name, T& value) {
    const auto found = object_->find(name);
    if (found == object_->end() || !wrong_.empty()) return;
    read(*found, value, std::string(name));
  }
  // What is wrong; empty: nothing.
  template <class T>
  [[nodiscard]] static std::string read_all(const Json& from, T& value) {
    Reader reader;
    reader.read(from, value, "");
    return reader.wrong_;
  }

 private:
  void refuse(const std::string& name, std::string_view wanted) {
    wrong_ = fmt::format("{} is not {}", name, wanted);
  }
  template <class T>
  void read(const Json& from, T& value, const std::string& name) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!from.is_boolean()) return refuse(name, "true or false");
      value = from.template get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!from.is_number_integer()) return refuse(name, "a whole number");
      const auto number = from.template get<std::int64_t>();
      using Limits = std::numeric_limits<T>;
      if (number < Limits::min() || number > Limits::max())
        return refuse(name, "a number of that size");
      value = static_cast<T>(number);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!from.is_number()) return refuse(name, "a number");
      value = from.template get<T>();
    } else {
      if (!from.is_object()) return refuse(name, "an object");
      Reader reader;
      reader.object_ = &from;
      fields(reader, value);
      if (!reader.wrong_.empty())
        wrong_ = name.empty() ? reader.wrong_ : name + '.' + reader.wrong_;
    }
  }
  void read(const Json& from, std::string& value, const std::string& name) {
    if (!from.is_string()) return refuse(name, "a text");
    value = from.get<std::string>();
  }
  template <class T>
  void read(const Json& from, std::vector<T>& values, const std::string& name) {
    constexpr std::size_t kMost = 1 << 16;
    if (!from.is_array() || from.size() > kMost) return refuse(name, "a list of a host's size");
    values.assign(from.size(), T{});
    for (std::size_t i = 0; i < values.size() && wrong_.empty(); ++i)
      read(from[i], values[i], fmt::format("{}[{}]", name, i));
  }
  template <class T>
  void read(const Json& from, std::map<std::string, T>& values, const std::string& name) {
    if (!from.is_object()) return refuse(name, "an object");
    for (const auto& [key, value] : from.items())
      if (wrong_.empty()) read(value, values[key], fmt::format("{}.{}", name, key));
  }

  const Json* object_ = nullptr;
  std::string wrong_;
};

Result<Json> parsed(const std::string& text) {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  if (text.size() > kMostBytes)
    return Status(Code::invalid_argument, "has more than 16 MiB: these are not facts of a host");
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded() && json.is_object()) return json;
  const bool is_cut = text.starts_with('{') && text.find_last_not_of(" \n") != std::string::npos &&
                      text[text.find_last_not_of(" \n")] != '}';
  return Status(Code::invalid_argument, text.empty() ? "is empty"
                                        : is_cut
                                            ? "is cut short: its last character closes nothing"
                                            : "is not JSON as `weft doctor --facts` writes it");
}

}  // namespace

std::string facts_to_json(const HostFacts& facts) {
  HostFacts copy = facts;
  // Names are bytes that the kernel does not look at.
  return Writer::json(copy).dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Result<HostFacts> facts_from_json(const std::string& text) {
  WEFT_ASSIGN(const Json json, parsed(text));
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_integer() || !json.contains("host"))
    return Status(Code::invalid_argument, "has no facts of a host (`weft doctor --facts`)");
  if (*format != kFactsFormat) {
    return Status(Code::mismatch,
                  fmt::format("has facts of format {}, by weft {}; this weft reads format {}",
                              format->dump(), json.value("weft", Json("?")).dump(), kFactsFormat));
  }
  HostFacts facts;
  if (const std::string wrong = Reader::read_all(json, facts); !wrong.empty())
    return Status(Code::invalid_argument, wrong);
  return facts;
}

std::string rank_to_json(const RankFacts& facts) {
  RankFacts copy = facts;
  return Writer::json(copy).dump();
}

Result<RankFacts> rank_from_json(const std::string& text) {
  WEFT_ASSIGN(const Json json, parsed(text));
  RankFacts facts;
  if (const std::string wrong = Reader::read_all(json, facts); !wrong.empty())
    return Status(Code::invalid_argument, wrong);
  return facts;
}

}  // namespace weft
