// The names of the fields are those of verbs/device; what a driver does not tell is null.
#include <nlohmann/json.hpp>

#include "tools/weft/devices/devices.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json known(int value) {
  return value < 0 ? Json() : Json(value);
}
Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json to_object(const NetworkInterface& interface) {
  return {{"name", interface.name},
          {"kind", interface.kind},
          {"address", interface.address},
          {"ip", known(interface.ip)},
          {"network", known(interface.network)},
          {"state", interface.state},
          {"mbit_per_s", known(interface.mbit_per_s)},
          {"mtu", interface.mtu},
          {"numa_node", known(interface.numa_node)},
          {"pci", known(interface.pci)},
          {"usable", interface.usable},
          {"reason", interface.reason}};
}

Json to_object(const GpuDevice& gpu) {
  return {{"number", gpu.number},
          {"name", gpu.name},
          {"pci", known(gpu.address)},
          {"bytes", gpu.bytes},
          {"compute_capability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor)},
          {"gpudirect_rdma", gpu.has_gpudirect_rdma},
          {"exports_dma_buf", gpu.exports_dma_buf}};
}

Json to_object(const RdmaGid& gid) {
  return {{"index", gid.index},
          {"gid", gid.text},
          {"kind", name(gid.kind)},
          {"ip", gid.ip},
          {"prefix_bits", known(gid.prefix_bits)},
          {"netdev", known(gid.netdev)},
          {"link_local", gid.link_local},
          {"usable", gid.usable},
          {"reason", gid.reason}};
}

Json to_object(const RdmaPort& port) {
  Json object{{"device", port.device},
              {"port", port.port},
              {"link_layer", port.link_layer},
              {"state", port.state},
              {"phys_state", known(port.phys_state)},
              {"rate", port.rate},
              {"mbit_per_s", known(port.mbit_per_s)},
              {"netdev", known(port.netdev)},
              {"netdev_mtu", port.mtu > 0 ? Json(port.mtu) : Json()},
              {"mtu", port.packet_bytes > 0 ? Json(port.packet_bytes) : Json()},
              {"lid", known(port.lid)},
              {"sm_lid", known(port.sm_lid)},
              {"node_guid", known(port.node_guid)},
              {"driver", known(port.driver)},
              {"pci", known(port.pci)},
              {"numa_node", known(port.numa_node)},
              {"virtual_function", port.is_virtual_function},
              {"bonded", port.is_bonded},
              {"usable", port.usable},
              {"reason", port.reason},
              {"gids", Json::array()}};
  for (const RdmaGid& gid : port.gids) object["gids"].push_back(to_object(gid));
  return object;
}

Json to_object(const RankedGid& ranked) {
  return {{"device", ranked.port->device}, {"port", ranked.port->port},
          {"index", ranked.gid->index},    {"kind", name(ranked.gid->kind)},
          {"ip", ranked.gid->ip},          {"score", ranked.score},
          {"reason", ranked.reason}};
}

Json to_object(const OptionalLibrary& library) {
  return {{"file", library.file},
          {"purpose", library.purpose},
          {"package", library.package},
          {"found", library.missing.empty()},
          {"reason", library.missing}};
}

template <typename T>
Json to_array(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(to_object(value));
  return array;
}

}  // namespace

std::string devices_json(const DeviceReport& report) {
  Json object{{"interfaces", to_array(report.interfaces)},
              {"rdma_ports", to_array(report.ports)},
              {"libraries", to_array(report.libraries)},
              {"remarks", report.remarks},
              {"memory_hooks", report.memory_hooks}};
  if (report.ports.empty()) object["no_rdma"] = report.no_rdma;
  object["cuda"] = known(report.cuda);
  object["gpus"] = to_array(report.gpus);
  if (report.gpus.empty()) object["no_gpu"] = report.no_gpu;
  if (!report.peer.empty())
    object["peer"] = {{"address", report.peer}, {"ranking", to_array(report.ranking)}};
  // Names of interfaces are bytes that the kernel does not look at.
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft
