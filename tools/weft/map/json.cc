// A map as JSON. The names of the fields are those of topology/rails.
#include <nlohmann/json.hpp>

#include "tools/weft/common/place.h"
#include "tools/weft/map/gpus.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name(LinkKind kind) {
  switch (kind) {
    case LinkKind::send:
      return "send";
    case LinkKind::receive:
      return "receive";
    case LinkKind::up:
      return "up";
    case LinkKind::down:
      return "down";
    case LinkKind::memory:
      return "memory";
    case LinkKind::read:
      return "read";
  }
  return {};
}

const std::string& rail_name(const ShownMap& shown, int rail) {
  return shown.cluster.rails[static_cast<std::size_t>(rail)].name;
}

Json to_object(const ShownMap& shown, Rank rank) {
  const int machine = shown.placement.machine_of(rank, shown.cluster);
  Json rails = Json::array();
  for (const int rail : shown.map.use.rails_of(rank)) {
    rails.push_back({{"rail", rail_name(shown, rail)},
                     {"interface", interface_name(shown.cluster, rail, machine)}});
  }
  return {{"rank", rank},
          {"seat", shown.placement.seat[static_cast<std::size_t>(rank)]},
          {"machine", shown.cluster.machines[static_cast<std::size_t>(machine)].name},
          {"rails", rails},
          {"reason", shown.map.use.reason_of(rank)}};
}

Json to_object(const ShownMap& shown, const MappedEdge& edge) {
  Json ways = Json::array();
  const int from = shown.placement.machine_of(edge.from, shown.cluster);
  const int to = shown.placement.machine_of(edge.to, shown.cluster);
  for (const Way& way : edge.ways) {
    ways.push_back({{"rail", rail_name(shown, way.rail)},
                    {"local", interface_name(shown.cluster, way.rail, from)},
                    {"remote", interface_name(shown.cluster, way.rail, to)},
                    {"share", way.share}});
  }
  return {{"from", edge.from},
          {"to", edge.to},
          {"ways", ways},
          {"us", edge.us},
          {"alone_us", edge.alone_us},
          {"reason", reason_text(edge, shown.cluster)}};
}

Json to_object(const std::optional<GpuWay>& way) {
  return way ? Json{{"from", way->from}, {"to", way->to}, {"way", way->way}} : Json();
}

// `error`: of the prediction, as a share of what was measured; null where nothing was.
Json measured(double us, double predicted) {
  Json error = us > 0 ? Json((predicted - us) / us) : Json();
  return {{"measured_us", us}, {"error", error}};
}

Json to_object(const LinkLoad& load) {
  return {{"name", load.name},         {"kind", name(load.kind)},
          {"rail", load.rail},         {"level", load.level},
          {"number", load.number},     {"gbit_per_s", load.gbit_per_s},
          {"messages", load.messages}, {"us", load.us}};
}

Json to_object(const CombiningWork& work, const LaneAdvice& advice) {
  Json advised = advice.lanes == 1 ? Json() : Json{{"lanes", advice.lanes}, {"us", advice.us}};
  return {{"lanes", work.lanes}, {"gbyte_per_s", work.gbyte_per_s},
          {"rank", work.rank},   {"bytes", work.bytes},
          {"us", work.us},       {"advised", advised}};
}

}  // namespace

std::string map_json(const ShownMap& shown) {
  Json ranks = Json::array(), edges = Json::array(), loads = Json::array();
  for (Rank rank = 0; rank < shown.graph.size(); ++rank) ranks.push_back(to_object(shown, rank));
  for (const MappedEdge& edge : shown.map.edges) edges.push_back(to_object(shown, edge));
  for (std::size_t e = 0; has_gpus(shown) && e < shown.map.edges.size(); ++e)
    edges[e]["gpu"] = to_object(gpu_way(shown, shown.map.edges[e]));
  for (std::size_t e = 0; e < shown.measured_us.size(); ++e)
    edges[e].update(measured(shown.measured_us[e], shown.map.edges[e].alone_us));
  for (const LinkLoad& load : shown.map.loads) loads.push_back(to_object(load));
  Json others = Json::object();
  for (const auto& [policy, us] : shown.other_us) others[std::string(name(policy))] = us;
  const Json object{{"cluster", shown.cluster.source},
                    {"graph", shown.graph.name()},
                    {"complete", shown.is_complete},
                    {"policy", name(shown.options.policy)},
                    {"bytes", static_cast<std::size_t>(shown.options.bytes)},
                    {"us", shown.us()},
                    {"links_us", shown.map.us},
                    {"combining", to_object(shown.work, shown.advice)},
                    {"us_by_other_policies", others},
                    {"between_switches", shown.map.between_switches},
                    {"ranks", ranks},
                    {"edges", edges},
                    {"loads", loads},
                    {"placement", json_of(shown.search ? &*shown.search : nullptr)}};
  return object.dump(2) + "\n";
}

}  // namespace weft
