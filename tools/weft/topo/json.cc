// A machine as JSON. The names of the fields are those of topology/hardware.
#include <nlohmann/json.hpp>

#include "tools/weft/topo/topo.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json known(int value) {
  return value < 0 ? Json() : Json(value);
}
Json known(double value) {
  return value <= 0 ? Json() : Json(value);
}
Json known(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json to_object(const PciPlace& place) {
  Json bridges = Json::array();
  for (const PciBridge& bridge : place.bridges)
    bridges.push_back({{"address", bridge.address}, {"gbyte_per_s", known(bridge.gbyte_per_s)}});
  return {{"pci", known(place.address)},
          {"gbyte_per_s", known(place.gbyte_per_s)},
          {"host_bridge", known(place.host_bridge)},
          {"bridges", bridges},
          {"numa_node", known(place.numa_node)},
          {"package", known(place.package)},
          {"is_node_assumed", place.is_node_assumed}};
}

Json to_object(const CacheLevel& cache) {
  return {{"level", cache.level},
          {"bytes", cache.bytes},
          {"count", cache.count},
          {"cores_each", cache.cores_each}};
}

// How near the interface is to each GPU and each node, in their order.
Json to_object(const Nic& nic, const Machine& machine) {
  Json gpus = Json::array();
  for (const Gpu& gpu : machine.gpus) {
    const Distance far = distance(nic.place, gpu.place);
    gpus.push_back({{"gpu", gpu.index},
                    {"distance", name(far.nearness)},
                    {"gbyte_per_s", known(far.gbyte_per_s)}});
  }
  Json nodes = Json::array();
  for (const NumaNode& node : machine.nodes)
    nodes.push_back({{"node", node.index}, {"distance", name(distance(nic.place, node))}});
  return {{"name", nic.name()},
          {"rdma", known(nic.rdma)},
          {"port", nic.port},
          {"netdev", known(nic.netdev)},
          {"mbit_per_s", known(nic.mbit_per_s)},
          {"virtual_function", nic.is_virtual_function},
          {"physical_function", known(nic.physical_function)},
          {"bond", known(nic.bond)},
          {"place", to_object(nic.place)},
          {"gpus", gpus},
          {"nodes", nodes}};
}

Json to_object(const GpuAbilities& abilities) {
  if (!abilities.unknown.empty()) return {{"unknown", abilities.unknown}};
  Json gpus = Json::array();
  for (const GpuAbility& each : abilities.gpus) {
    gpus.push_back({{"gpu", each.gpu.number},
                    {"pci", known(each.gpu.address)},
                    {"no_kernels", known(each.no_kernels)},
                    {"reads", each.gpu.reads},
                    {"exports_dma_buf", each.gpu.exports_dma_buf}});
  }
  return {{"gpus", gpus}, {"nvidia_peermem", abilities.has_peermem}};
}

}  // namespace

std::string machine_json(const Machine& machine, const GpuAbilities* abilities) {
  Json caches = Json::array(), nodes = Json::array(), nics = Json::array(), gpus = Json::array(),
       links = Json::array();
  for (const CacheLevel& cache : machine.caches) caches.push_back(to_object(cache));
  for (const NumaNode& node : machine.nodes) {
    nodes.push_back({{"index", node.index},
                     {"bytes", node.bytes},
                     {"cores", node.cores},
                     {"package", known(node.package)},
                     {"processors", node.processors}});
  }
  for (const Nic& nic : machine.nics) nics.push_back(to_object(nic, machine));
  for (const Gpu& gpu : machine.gpus) {
    gpus.push_back({{"index", gpu.index},
                    {"model", known(gpu.model)},
                    {"memory_bytes", gpu.memory_bytes},
                    {"uuid", known(gpu.uuid)},
                    {"place", to_object(gpu.place)}});
  }
  for (const GpuLink& link : machine.gpu_links) {
    links.push_back({{"gpu", link.gpu},
                     {"peer", known(link.peer)},
                     {"kind", name(link.kind)},
                     {"lanes", link.lanes},
                     {"gbyte_per_s", known(link.gbyte_per_s)}});
  }
  Json remarks = Json::object();
  for (const Remark& remark : remarks_on(machine))
    remarks[std::string(remark.about)] = remark.phrases;
  Json object{{"source", machine.source},
              {"cpu", known(machine.cpu)},
              {"packages", machine.packages},
              {"cores", machine.cores},
              {"threads", machine.threads},
              {"caches", caches},
              {"nodes", nodes},
              {"nics", nics},
              {"gpus", gpus},
              {"gpu_links", links},
              {"unknown", unknown_in(machine)},
              {"remarks", remarks},
              {"left_out", machine.left_out}};
  if (abilities != nullptr) {
    object["gpu_abilities"] = to_object(*abilities);
    Json pairs = Json::array();
    for (const GpuAndPort& pair : abilities->pairs)
      pairs.push_back({{"gpu", pair.gpu}, {"port", pair.port}, {"text", pair.text}});
    object["gpus_and_ports"] = pairs;
  }
  // Names may have any byte; JSON may not.
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
