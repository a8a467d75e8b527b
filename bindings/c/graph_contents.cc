// graph_contents: what a graph says about itself.
#include <weft/graph.h>

#include <string>
#include <vector>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"
#include "bindings/c/structs.h"

namespace {

using namespace weft::c;
using weft::Status;

}  // namespace

weft_code weft_graph_size(const weft_graph* graph, int32_t* size) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(size, "size"));
    *size = from->size();
    return {};
  });
}

weft_code weft_graph_name(const weft_graph* graph, const char** name) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    *name = from->name().c_str();
    return {};
  });
}

weft_code weft_graph_edges(const weft_graph* graph, weft_edge* edges, size_t capacity,
                           size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    if (edges == nullptr && capacity == 0) {
      *count = static_cast<std::size_t>(from->edge_count());
      return {};
    }
    const std::vector<weft::Edge> all = from->edges();
    return give_array(std::span<const weft::Edge>(all), "edges", edges, capacity, count);
  });
}

weft_code weft_graph_in_peers(const weft_graph* graph, int32_t rank, weft_peer* peers,
                              size_t capacity, size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_rank(rank, from->size(), "rank"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    return give_array(from->in_edges(rank), "peers", peers, capacity, count);
  });
}

weft_code weft_graph_out_peers(const weft_graph* graph, int32_t rank, weft_peer* peers,
                               size_t capacity, size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_rank(rank, from->size(), "rank"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    return give_array(from->out_edges(rank), "peers", peers, capacity, count);
  });
}

weft_code weft_graph_weight(const weft_graph* graph, int32_t to, int32_t from, double* weight) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_rank(to, object->size(), "to"));
    WEFT_RETURN_IF_ERROR(check_rank(from, object->size(), "from"));
    WEFT_RETURN_IF_ERROR(check_not_null(weight, "weight"));
    *weight = object->weight(to, from);
    return {};
  });
}

weft_code weft_graph_equal(const weft_graph* a, const weft_graph* b, int* equal) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto first, object_of(a, "a"));
    WEFT_ASSIGN(const auto second, object_of(b, "b"));
    WEFT_RETURN_IF_ERROR(check_not_null(equal, "equal"));
    *equal = *first == *second ? 1 : 0;
    return {};
  });
}

weft_code weft_graph_get_properties(const weft_graph* graph, weft_graph_properties* properties) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    weft_graph_properties found{};
    found.is_regular = weft::is_regular(*from) ? 1 : 0;
    found.is_undirected = weft::is_undirected(*from) ? 1 : 0;
    found.is_strongly_connected = weft::is_strongly_connected(*from) ? 1 : 0;
    found.is_row_stochastic = weft::check_row_stochastic(*from).ok() ? 1 : 0;
    found.is_column_stochastic = weft::check_column_stochastic(*from).ok() ? 1 : 0;
    found.is_doubly_stochastic = found.is_row_stochastic & found.is_column_stochastic;
    found.max_in_degree = weft::max_in_degree(*from);
    found.max_out_degree = weft::max_out_degree(*from);
    return write_struct(found, "properties", properties);
  });
}

weft_code weft_graph_get_mixing(const weft_graph* graph, weft_mixing* mixing) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_not_null(mixing, "mixing"));
    const weft::Mixing found = weft::mixing(*from);
    weft_mixing given{};
    given.sigma2 = found.sigma2;
    given.spectral_gap = found.spectral_gap;
    given.rounds = found.rounds.value_or(-1);
    return write_struct(given, "mixing", mixing);
  });
}

weft_code weft_graph_describe(const weft_graph* graph, char** text) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(text, "text"));
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    std::string lines;
    for (const std::string& line : weft::describe(*from)) lines.append(line).append("\n");
    return give_string(lines, text);
  });
}
