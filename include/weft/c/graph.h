// The C API: graphs over the ranks 0…size-1. An edge (from -> to) means that `from` may send to
// `to`, which applies the edge's weight to what it receives. A graph does not change once it is
// made.
#pragma once

#include <weft/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_graph weft_graph;

typedef struct weft_edge {
  int32_t from;
  int32_t to;
  double weight;
} weft_edge;

// Makes a graph of n ranks by name: "exponential", "ring:style=1", "grid:4x4", "torus:4x2x8",
// "random_regular:d=3,seed=1", …, and with any of them
// "weights=uniform|metropolis_hastings|push_uniform". An unknown name is an error that lists the
// known ones.
WEFT_C_API weft_code weft_graph_make(const char* spec, int32_t n, weft_graph** graph);
// Makes the graph with these edges. self_weights has one weight for each of the n ranks. An edge of
// weight 0 is dropped. `name` is for people; NULL stands for "".
WEFT_C_API weft_code weft_graph_from_edges(int32_t n, const weft_edge* edges, size_t edge_count,
                                           const double* self_weights, const char* name,
                                           weft_graph** graph);
// Makes the graph of a dense matrix of n x n weights, row by row: weights[i * n + j] is the weight
// that rank i applies to what j sends, and that of its own data for j = i.
WEFT_C_API weft_code weft_graph_from_matrix(int32_t n, const double* weights, const char* name,
                                            weft_graph** graph);
// Makes a graph with the same edges and the weights of a rule: "uniform", "metropolis_hastings" or
// "push_uniform".
WEFT_C_API weft_code weft_graph_reweighted(const weft_graph* graph, const char* rule,
                                           weft_graph** reweighted);
// Makes the graph without the edges of `count` ranks, which keep their numbers. The ranks that sent to one of
// them send to those that it sent to, so that a doubly stochastic graph stays that.
WEFT_C_API weft_code weft_graph_without(const weft_graph* graph, const int32_t* gone, size_t count,
                                        weft_graph** made);
// Frees a graph. Contexts and schedules that use it keep what they need.
WEFT_C_API weft_code weft_graph_free(weft_graph* graph);

// The number of ranks.
WEFT_C_API weft_code weft_graph_size(const weft_graph* graph, int32_t* size);
// The name; for a generated graph, the text from which weft_graph_make() makes it again. The memory
// is the graph's and valid until the graph is freed.
WEFT_C_API weft_code weft_graph_name(const weft_graph* graph, const char** name);

// The functions below copy an array into the caller's memory, which has room for `capacity`
// elements, and set *count to the number of elements that there are. With array NULL and capacity 0
// they only count. Too little room is WEFT_INVALID_ARGUMENT; *count then says how much is needed.
//
// Every edge, ascending by receiver, then by sender.
WEFT_C_API weft_code weft_graph_edges(const weft_graph* graph, weft_edge* edges, size_t capacity,
                                      size_t* count);
// The ranks that send to `rank`, ascending, with the weights that `rank` applies.
WEFT_C_API weft_code weft_graph_in_peers(const weft_graph* graph, int32_t rank, weft_peer* peers,
                                         size_t capacity, size_t* count);
// The ranks to which `rank` sends, ascending, with the weights that they apply.
WEFT_C_API weft_code weft_graph_out_peers(const weft_graph* graph, int32_t rank, weft_peer* peers,
                                          size_t capacity, size_t* count);

// The weight that `to` applies to what `from` sends: the self weight if both are equal, 0 if there
// is no such edge.
WEFT_C_API weft_code weft_graph_weight(const weft_graph* graph, int32_t to, int32_t from,
                                       double* weight);
// *equal := 1 if size, edges and weights are equal, else 0. The name does not count.
WEFT_C_API weft_code weft_graph_equal(const weft_graph* a, const weft_graph* b, int* equal);

// What a graph is; members are 1 or 0. A sum of weights counts as 1 within 1e-6.
typedef struct weft_graph_properties {
  size_t size;                    // sizeof(weft_graph_properties), set by the caller
  int32_t is_regular;             // all ranks have the same in-degree and the same out-degree
  int32_t is_undirected;          // every edge has its reverse edge, of any weight
  int32_t is_strongly_connected;  // every rank reaches every other
  int32_t is_row_stochastic;      // the weights that a rank applies sum to 1 (pull)
  int32_t is_column_stochastic;   // the weights of what a rank sends sum to 1 (push)
  int32_t is_doubly_stochastic;   // both
  int32_t max_in_degree;
  int32_t max_out_degree;
} weft_graph_properties;
WEFT_C_API weft_code weft_graph_get_properties(const weft_graph* graph,
                                               weft_graph_properties* properties);

// How fast repeated averaging with a graph brings all ranks to one value (weft/graph/mixing.h).
typedef struct weft_mixing {
  size_t size;          // sizeof(weft_mixing), set by the caller
  double sigma2;        // bounds the factor by which one round changes a disagreement
  double spectral_gap;  // 1 - sigma2
  int64_t rounds;       // until a disagreement is a thousandth of what it was; -1: more than 10,000
} weft_mixing;
WEFT_C_API weft_code weft_graph_get_mixing(const weft_graph* graph, weft_mixing* mixing);

// Describes a graph for people, in lines. The caller frees *text with weft_string_free().
WEFT_C_API weft_code weft_graph_describe(const weft_graph* graph, char** text);

#ifdef __cplusplus
}
#endif
