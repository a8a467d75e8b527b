// graph: making graphs.
#include <weft/graph.h>

#include <string>
#include <vector>

#include "bindings/c/objects.h"

namespace {

using namespace weft::c;
using weft::Graph;
using weft::Result;
using weft::Status;

void give_graph(Graph made, weft_graph** graph) {
  give(std::make_shared<Graph>(made), graph);
}

}  // namespace

weft_code weft_graph_make(const char* spec, int32_t n, weft_graph** graph) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(spec, "spec"));
    WEFT_ASSIGN(Graph made, weft::make_graph(spec, n));
    give_graph(made, graph);
    return {};
  });
}

weft_code weft_graph_from_edges(int32_t n, const weft_edge* edges, size_t edge_count,
                                const double* self_weights, const char* name, weft_graph** graph) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(self_weights, "self_weights"));
    if (edge_count != 0) WEFT_RETURN_IF_ERROR(check_not_null(edges, "edges"));
    WEFT_RETURN_IF_ERROR(weft::check_graph_size(n, 0));
    if (edge_count > static_cast<std::size_t>(weft::kMostEdges)) {
      return argument_error("edge_count", "is " + std::to_string(edge_count) + "; there can be " +
                                              std::to_string(weft::kMostEdges));
    }
    std::vector<weft::Edge> all;
    all.reserve(edge_count);
    for (std::size_t i = 0; i < edge_count; ++i)
      all.push_back({edges[i].from, edges[i].to, edges[i].weight});
    WEFT_ASSIGN(Graph made, Graph::from_edges(n, all, {self_weights, self_weights + n},
                                              name != nullptr ? name : ""));
    give_graph(made, graph);
    return {};
  });
}

weft_code weft_graph_from_matrix(int32_t n, const double* weights, const char* name,
                                 weft_graph** graph) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(weights, "weights"));
    WEFT_RETURN_IF_ERROR(weft::check_graph_size(n, n));  // a matrix may have all edges
    const auto cells = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
    WEFT_ASSIGN(Graph made,
                Graph::from_matrix(n, {weights, weights + cells}, name != nullptr ? name : ""));
    give_graph(made, graph);
    return {};
  });
}

weft_code weft_graph_reweighted(const weft_graph* graph, const char* rule,
                                weft_graph** reweighted) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(reweighted, "reweighted"));
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(rule, "rule"));
    WEFT_ASSIGN(const weft::WeightRule found, weft::weight_rule(rule));
    WEFT_ASSIGN(Graph made, weft::reweighted(*from, found));
    give_graph(made, reweighted);
    return {};
  });
}

weft_code weft_graph_without(const weft_graph* graph, const int32_t* gone, size_t count,
                             weft_graph** made) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(made, "made"));
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    if (count != 0) WEFT_RETURN_IF_ERROR(check_not_null(gone, "gone"));
    WEFT_ASSIGN(Graph left, weft::without(*from, {gone, count}));
    give_graph(left, made);
    return {};
  });
}

weft_code weft_graph_free(weft_graph* graph) {
  return call(__func__, [&] { return release(graph, "graph"); });
}
