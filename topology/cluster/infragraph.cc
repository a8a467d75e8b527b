// InfraGraph: devices are kinds of boxes with components; instances are so many boxes of a kind; edges link components of
// instances, named with slices as Python has them: host[0:4], nic[2], cx7.port.
//
// A device with accelerators, network cards or memory is a host, with a rank for each accelerator; any other is a switch, also
// one whose processors are its own. What links a host's component to a switch is an interface, by the name of the component.
// Edges inside of devices do not count.
#include "topology/cluster/infragraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "topology/cluster/fabric.h"
#include "topology/json/json.h"
#include "verbs/device/device.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr int kDeepest = 16;
constexpr int kMostCount = 1 << 20;           // of an instance or a component
constexpr std::size_t kMostEnds = 1'000'000;  // of all edges together
constexpr std::size_t kMostNested = 8;        // devices in devices
constexpr const char* kDeviceChoice = "device";

struct Component {
  int count = 0;
  std::string choice;
};
struct Device {
  std::map<std::string, Component> components;
  // With those of the devices in it, once they were counted.
  std::optional<std::int64_t> accelerators{};
  bool is_host = false;
};
struct Instance {
  std::string device;
  int count = 0;
};
struct Wire {
  double gbit_per_s = 0;  // 0: not told
  double us = -1;         // -1: not told
};
// One box and one of its components.
struct End {
  std::string instance;
  int number = 0;
  std::string component;  // "nic.0", "cx7.1.port.0"
  [[nodiscard]] std::string box() const { return fmt::format("{}.{}", instance, number); }
};
struct Slice {
  std::string name;
  int begin = 0, end = 0, step = 1;
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>((end - begin + step - 1) / step);
  }
};

class InfragraphReader {
 public:
  explicit InfragraphReader(std::string name) : name_(std::move(name)) {}

  Result<Cluster> read(const std::string& text) {
    const std::optional<json> parsed = parse_json(text, kDeepest);
    if (!parsed || !parsed->is_object())
      return wrong("is no JSON, or is cut short or nested too deep");
    const json& document = *parsed;
    WEFT_RETURN_IF_ERROR(
        each(document, "devices", [&](const json& from) { return add_device(from); }));
    for (const auto& [device, found] : devices_) {
      std::vector<std::string> outer;
      WEFT_RETURN_IF_ERROR(count(device, outer));
    }
    WEFT_RETURN_IF_ERROR(
        each(document, "instances", [&](const json& from) { return add_instance(from); }));
    WEFT_RETURN_IF_ERROR(each(document, "links", [&](const json& from) { return add_link(from); }));
    WEFT_RETURN_IF_ERROR(each(document, "edges", [&](const json& from) { return add_edge(from); }));
    WEFT_RETURN_IF_ERROR(make_hosts());
    Cluster cluster = cluster_of(fabric_);
    if (const std::int64_t alone = hosts_in_all() - std::ssize(fabric_.hosts); alone > 0)
      cluster.remarks.push_back(
          fmt::format("{} hosts are linked to no switch and are left out", alone));
    if (!has_latency_)
      cluster.remarks.push_back(fmt::format(
          "InfraGraph tells no latency of the hosts' links: {} us a message", fabric_.latency_us));
    return cluster;
  }

 private:
  [[nodiscard]] Status wrong(const std::string& what) const {
    return {Code::invalid_argument, fmt::format("{}: {:.300}", name_, what)};
  }

  template <class Take>
  Status each(const json& document, const char* key, Take take) const {
    const auto found = document.find(key);
    if (found == document.end() || !found->is_array())
      return wrong(fmt::format("has no array {}", key));
    for (std::size_t i = 0; i < found->size(); ++i) {
      if (!(*found)[i].is_object()) return wrong(fmt::format("{} {} is no object", key, i));
      if (const Status taken = take((*found)[i]); !taken.ok())
        return wrong(fmt::format("{} {}: {}", key, i, taken.text()));
    }
    return {};
  }

  static Status bad(std::string what) { return {Code::invalid_argument, std::move(what)}; }
  static Status too_many() {
    return bad(fmt::format("the edges have more than {} ends", kMostEnds));
  }

  static Result<int> count_of(const json& from) {
    const auto found = from.find("count");
    const bool is_whole = found != from.end() && found->is_number_unsigned();
    if (!is_whole || found->get<std::uint64_t>() > kMostCount)
      return bad(fmt::format("count: expected 0 to {}", kMostCount));
    return found->get<int>();
  }
  static Result<std::string> needed(const json& from, const char* key) {
    std::string text = text_of(from, key);
    if (text.empty()) return bad(fmt::format("has no {}", key));
    return text;
  }

  Status add_device(const json& from) {
    Device device;
    WEFT_ASSIGN(const std::string name, needed(from, "name"));
    const auto components = from.find("components");
    for (std::size_t i = 0;
         components != from.end() && components->is_array() && i < components->size(); ++i) {
      const json& component = (*components)[i];
      if (!component.is_object()) return bad("a component is no object");
      const auto about = [&](const Status& why) {
        return bad(fmt::format("component {} of '{:.60}': {}", i, name, why.text()));
      };
      const Result<std::string> its = needed(component, "name"),
                                choice = needed(component, "choice");
      const Result<int> count = count_of(component);
      for (const Status& each : {its.status(), choice.status(), count.status()})
        if (!each.ok()) return about(each);
      if (!device.components.emplace(*its, Component{*count, *choice}).second)
        return about(bad(fmt::format("'{:.60}' is there twice", *its)));
    }
    if (!devices_.emplace(name, device).second)
      return bad(fmt::format("device '{:.60}' is there twice", name));
    return {};
  }

  // Its accelerators, and whether it is a host. `outer`: the devices that this one is in.
  Status count(const std::string& name, std::vector<std::string>& outer) {
    Device& device = devices_.at(name);
    if (device.accelerators) return {};
    if (std::ranges::find(outer, name) != outer.end())
      return wrong(fmt::format("device '{:.60}' contains itself", name));
    outer.push_back(name);
    if (outer.size() > kMostNested)
      return wrong(fmt::format("device '{:.60}' has devices in devices, more than {} deep",
                               outer.front(), kMostNested));
    std::int64_t accelerators = 0;
    for (const auto& [inner, component] : device.components) {
      if (component.choice == "xpu") accelerators += component.count;
      device.is_host |=
          component.count > 0 &&
          (component.choice == "xpu" || component.choice == "nic" || component.choice == "memory");
      if (component.choice != kDeviceChoice) continue;
      const auto known = devices_.find(inner);
      if (known == devices_.end())
        return wrong(fmt::format(
            "device '{:.60}' has a component '{:.60}', and there is no such device", name, inner));
      WEFT_RETURN_IF_ERROR(count(inner, outer));
      accelerators += component.count * *known->second.accelerators;
      device.is_host |= component.count > 0 && known->second.is_host;
    }
    outer.pop_back();
    device.accelerators = std::min<std::int64_t>(accelerators, kMostCount);
    return {};
  }

  Status add_instance(const json& from) {
    WEFT_ASSIGN(const int count, count_of(from));
    WEFT_ASSIGN(const std::string device, needed(from, "device"));
    WEFT_ASSIGN(const std::string name, needed(from, "name"));
    if (!devices_.contains(device)) return bad(fmt::format("there is no device '{:.60}'", device));
    if (!instances_.emplace(name, Instance{device, count}).second)
      return bad(fmt::format("instance '{:.60}' is there twice", name));
    return {};
  }

  Status add_link(const json& from) {
    Wire wire;
    if (const auto physical = from.find("physical");
        physical != from.end() && physical->is_object()) {
      const auto value = [&](const char* what, const char* unit) {
        const auto part = physical->find(what);
        if (part == physical->end() || !part->is_object()) return 0.0;
        if (const std::string choice = text_of(*part, "choice"); !choice.empty() && choice != unit)
          return 0.0;
        const auto number = part->find(unit);
        return number != part->end() && number->is_number() ? number->get<double>() : 0.0;
      };
      wire.gbit_per_s = value("bandwidth", "gigabits_per_second") +
                        8 * value("bandwidth", "gigabytes_per_second");
      if (physical->contains("latency"))
        wire.us =
            value("latency", "us") + value("latency", "ms") * 1e3 + value("latency", "ns") / 1e3;
    }
    constexpr double kMostGbit = 1e6, kMostUs = 1e9;
    if (!(wire.gbit_per_s >= 0 && wire.gbit_per_s <= kMostGbit) ||
        !(wire.us >= -1 && wire.us <= kMostUs))
      return bad("a rate or a latency that is not possible");
    WEFT_ASSIGN(const std::string name, needed(from, "name"));
    links_[name] = wire;
    return {};
  }

  // "nic[0:4:2]" of `count`: as Python reads it.
  static Result<Slice> slice_of(std::string_view text, int count) {
    Slice slice{std::string(text.substr(0, text.find('['))), 0, count, 1};
    if (slice.name.size() == text.size()) return slice;
    const auto fail = [&] {
      return bad(fmt::format("'{:.60}': expected a name with a slice within 0:{}, such as nic[0:2]",
                             text, count));
    };
    std::string_view inner = text.substr(slice.name.size() + 1);
    if (!inner.ends_with(']')) return fail();
    inner.remove_suffix(1);
    std::array<int*, 3> parts{&slice.begin, &slice.end, &slice.step};
    std::size_t part = 0;
    for (bool more = true; more; ++part) {
      const std::size_t colon = std::min(inner.find(':'), inner.size());
      const std::string_view word = inner.substr(0, colon);
      if (part == parts.size()) return fail();
      if (!word.empty()) {
        const auto [end, error] =
            std::from_chars(word.data(), word.data() + word.size(), *parts[part]);
        if (error != std::errc() || end != word.data() + word.size()) return fail();
      }
      more = colon < inner.size();
      inner.remove_prefix(std::min(colon + 1, inner.size()));
    }
    if (part == 1) slice.end = slice.begin + 1;
    if (slice.begin < 0 || slice.end > count || slice.begin > slice.end || slice.step < 1)
      return fail();
    return slice;
  }

  // "cx7[0:2].port" of a device: "cx7.0.port.0", …
  Result<std::vector<std::string>> components_of(std::string device, std::string_view path) const {
    std::vector<std::string> all{""};
    for (std::size_t depth = 0; !path.empty(); ++depth) {
      const std::size_t dot = std::min(path.find('.'), path.size());
      const std::string_view word = path.substr(0, dot);
      const std::string name(word.substr(0, word.find('[')));
      const auto known = devices_.find(device);
      if (depth == kMostNested || known == devices_.end() ||
          !known->second.components.contains(name))
        return bad(fmt::format("device '{:.60}' has no component '{:.60}'", device, name));
      WEFT_ASSIGN(const Slice slice, slice_of(word, known->second.components.at(name).count));
      if (all.size() * slice.count() > kMostEnds) return too_many();
      std::vector<std::string> longer;
      for (const std::string& before : all) {
        for (int number = slice.begin; number < slice.end; number += slice.step)
          longer.push_back(
              fmt::format("{}{}{}.{}", before, before.empty() ? "" : ".", name, number));
      }
      all = std::move(longer);
      device = name;
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return all;
  }

  Result<std::vector<End>> ends_of(const json& edge, const char* key) {
    const auto from = edge.find(key);
    if (from == edge.end() || !from->is_object()) return bad(fmt::format("has no {}", key));
    const std::string text = text_of(*from, "instance");
    const auto known = instances_.find(text.substr(0, text.find('[')));
    if (known == instances_.end()) return bad(fmt::format("there is no instance '{:.60}'", text));
    WEFT_ASSIGN(const Slice slice, slice_of(text, known->second.count));
    WEFT_ASSIGN(const std::string component, needed(*from, "component"));
    WEFT_ASSIGN(const std::vector<std::string> components,
                components_of(known->second.device, component));
    ends_ += slice.count() * components.size();
    if (ends_ > kMostEnds) return too_many();
    std::vector<End> ends;
    for (int number = slice.begin; number < slice.end; number += slice.step) {
      for (const std::string& each : components) ends.push_back({slice.name, number, each});
    }
    return ends;
  }

  Status add_edge(const json& from) {
    WEFT_ASSIGN(const std::vector<End> one, ends_of(from, "ep1"));
    WEFT_ASSIGN(const std::vector<End> other, ends_of(from, "ep2"));
    const std::string link = text_of(from, "link"), scheme = text_of(from, "scheme");
    const auto wire = links_.find(link);
    if (wire == links_.end()) return bad(fmt::format("there is no link '{:.60}'", link));
    if (scheme == "one2one") {
      for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
        WEFT_RETURN_IF_ERROR(connect(one[i], other[i], link, wire->second));
    } else if (scheme == "many2many") {
      if (one.size() * other.size() > kMostEnds)
        return bad(fmt::format("more than {} links", kMostEnds));
      for (const End& a : one)
        for (const End& b : other) WEFT_RETURN_IF_ERROR(connect(a, b, link, wire->second));
    } else {
      return bad(fmt::format("scheme '{:.60}': expected one2one or many2many", scheme));
    }
    return {};
  }

  Status connect(const End& a, const End& b, const std::string& link, const Wire& wire) {
    if (links_made_ += 1; links_made_ > kMostEnds) return too_many();
    if (a.box() == b.box()) return {};
    const bool is_host = is_a_host(a.instance), is_other_host = is_a_host(b.instance);
    if (is_host && is_other_host)
      return bad(fmt::format("{} and {} are two hosts; clusters here have switches between hosts",
                             a.box(), b.box()));
    if (wire.gbit_per_s <= 0)
      return bad(
          fmt::format("link '{:.60}' has no bandwidth in gigabits or gigabytes per second", link));
    if (!is_host && !is_other_host) {
      fabric_.up_gbit_per_s[a.box()] += wire.gbit_per_s;
      fabric_.up_gbit_per_s[b.box()] += wire.gbit_per_s;
      fabric_.level_us = std::max(fabric_.level_us, 2 * wire.us);
      return {};
    }
    const End& host = is_host ? a : b;
    interfaces_[{host.instance, host.number}].push_back(
        {host.component, wire.gbit_per_s, is_host ? b.box() : a.box()});
    if (wire.us >= 0) {
      fabric_.latency_us = has_latency_ ? std::max(fabric_.latency_us, 2 * wire.us) : 2 * wire.us;
      has_latency_ = true;
    }
    return {};
  }

  [[nodiscard]] const Device& device_of(const std::string& instance) const {
    return devices_.at(instances_.at(instance).device);
  }
  [[nodiscard]] bool is_a_host(const std::string& instance) const {
    return device_of(instance).is_host;
  }

  [[nodiscard]] std::int64_t hosts_in_all() const {
    std::int64_t all = 0;
    for (const auto& [name, instance] : instances_) all += is_a_host(name) ? instance.count : 0;
    return all;
  }

  Status make_hosts() {
    fabric_.source = name_;
    std::int64_t ranks = 0;
    for (auto& [box, interfaces] : interfaces_) {
      FabricHost host{fmt::format("{}.{}", box.first, box.second), {}, 1};
      host.ranks = static_cast<int>(std::max<std::int64_t>(*device_of(box.first).accelerators, 1));
      ranks += host.ranks;
      host.interfaces = std::move(interfaces);
      std::ranges::sort(host.interfaces, is_listed_before, &FabricInterface::name);
      fabric_.hosts.push_back(std::move(host));
    }
    if (fabric_.hosts.empty())
      return wrong("no edge links a host (a device with xpu, nic or memory) to a switch");
    if (ranks > kMostCount) return wrong(fmt::format("more than {} ranks (xpu)", kMostCount));
    // Hosts of a leaf are neighbors.
    std::ranges::stable_sort(fabric_.hosts, is_listed_before,
                             [](const FabricHost& host) { return host.interfaces.front().leaf; });
    return {};
  }

  const std::string name_;
  std::map<std::string, Device> devices_;
  std::map<std::string, Instance> instances_;
  std::map<std::string, Wire> links_;
  std::map<std::pair<std::string, int>, std::vector<FabricInterface>> interfaces_;
  std::size_t ends_ = 0, links_made_ = 0;
  bool has_latency_ = false;
  HostFabric fabric_;
};

bool has_line(const std::string& text, std::string_view begin) {
  return text.starts_with(begin) || text.find(fmt::format("\n{}", begin)) != std::string::npos;
}

}  // namespace

bool is_infragraph(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return true;  // nothing else here is JSON
  return has_line(text, "instances:") && has_line(text, "edges:");
}

Result<Cluster> read_infragraph(const std::string& text, const std::string& name) {
  if (has_line(text, "instances:") && has_line(text, "edges:"))
    return Status(
        Code::invalid_argument,
        fmt::format("{}: InfraGraph as YAML; write it as JSON (yq . FILE > FILE.json)", name));
  return InfragraphReader(name).read(text);
}

}  // namespace weft
