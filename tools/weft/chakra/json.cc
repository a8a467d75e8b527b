// The form in JSON, by the names that Chakra's own reader takes.
#include "topology/json/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/weft/chakra/chakra.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr int kDeepest = 16;

Status invalid(std::string why) {
  return Status(Code::invalid_argument, std::move(why));
}

std::optional<std::int64_t> number_of(const json& node, const char* key) {
  const auto found = node.find(key);
  if (found == node.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

Result<ChakraNode> node_of(const json& from) {
  if (!from.is_object()) return invalid("is no object");
  const auto id = number_of(from, "Id");
  const auto type = number_of(from, "NodeType");
  if (!id || !type) return invalid("has no Id, or no NodeType");
  ChakraNode node;
  node.id = static_cast<std::uint64_t>(*id);
  node.name = text_of(from, "Name");
  node.group = text_of(from, "pg_name");
  const auto us = number_of(from, "runtime").value_or(0);
  if (us < 0) return invalid(fmt::format("node {}: runtime {}", *id, us));
  node.us = static_cast<std::uint64_t>(us);
  if (const auto cpu = from.find("is_cpu_op"); cpu != from.end())
    node.is_on_cpu =
        cpu->is_boolean() ? cpu->get<bool>() : number_of(from, "is_cpu_op").value_or(0) != 0;
  if (const auto after = from.find("data_deps"); after != from.end()) {
    if (!after->is_array()) return invalid(fmt::format("node {}: data_deps is no array", *id));
    for (const json& each : *after) {
      if (!each.is_number_integer())
        return invalid(fmt::format("node {}: data_deps has no ids", *id));
      node.after.push_back(each.get<std::uint64_t>());
    }
  }
  const ChakraFields fields{static_cast<std::uint64_t>(*type), number_of(from, "comm_type"),
                            number_of(from, "comm_size"),      number_of(from, "comm_src"),
                            number_of(from, "comm_dst"),       number_of(from, "comm_tag")};
  WEFT_RETURN_IF_ERROR(finish(node, fields));
  return node;
}

}  // namespace

Result<std::vector<ChakraNode>> chakra_nodes_of_json(const std::string& text) {
  const std::optional<json> document = parse_json(text, kDeepest);
  if (!document || !document->is_object())
    return invalid("is no JSON, or is cut short or nested too deep");
  const auto graph = document->find("workload_graph");
  if (graph == document->end() || !graph->is_array()) return invalid("has no workload_graph");
  std::vector<ChakraNode> nodes;
  for (const json& each : *graph) {
    Result<ChakraNode> node = node_of(each);
    if (!node.ok())
      return invalid(fmt::format("workload_graph {}: {}", nodes.size(), node.status().text()));
    nodes.push_back(*std::move(node));
  }
  return nodes;
}

}  // namespace weft
