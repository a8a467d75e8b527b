// graphs_test: graphs and schedules, and for each of their functions what bad arguments lead to.
#include <math.h>

#include "tests/c/check.h"

static void test_graphs(void) {
  weft_graph *ring = NULL, *same = NULL, *other = NULL;
  OK(weft_graph_make("ring", 4, &ring));
  int32_t size = 0;
  const char* name = NULL;
  OK(weft_graph_size(ring, &size));
  OK(weft_graph_name(ring, &name));
  CHECK(size == 4 && strncmp(name, "ring", 4) == 0);

  weft_edge edges[8];
  weft_peer peers[2];
  size_t count = 0;
  OK(weft_graph_edges(ring, NULL, 0, &count));
  CHECK(count == 8);
  OK(weft_graph_edges(ring, edges, 8, &count));
  CHECK(edges[0].from == 1 && edges[0].to == 0 && fabs(edges[0].weight - 1.0 / 3) < 1e-12);
  count = 0;
  INVALID(weft_graph_edges(ring, edges, 7, &count), "room for 7 of 8");
  CHECK(count == 8);
  OK(weft_graph_in_peers(ring, 0, peers, 2, &count));
  CHECK(count == 2 && peers[0].rank == 1 && peers[1].rank == 3);
  OK(weft_graph_out_peers(ring, 3, peers, 2, &count));
  CHECK(count == 2 && peers[0].rank == 0 && peers[1].rank == 2);
  INVALID(weft_graph_in_peers(ring, 4, peers, 2, &count), "rank is 4");
  INVALID(weft_graph_out_peers(ring, -1, peers, 2, &count), "rank is -1");
  INVALID(weft_graph_out_peers(ring, 0, NULL, 2, &count), "peers is NULL");
  INVALID(weft_graph_out_peers(ring, 0, peers, 2, NULL), "count is NULL");

  double self[4] = {0}, matrix[16] = {0};
  for (int to = 0; to < 4; ++to) {
    for (int from = 0; from < 4; ++from)
      OK(weft_graph_weight(ring, to, from, &matrix[4 * to + from]));
    self[to] = matrix[5 * to];
  }
  CHECK(matrix[2] == 0 && fabs(matrix[1] - 1.0 / 3) < 1e-12);
  int equal = 0;
  OK(weft_graph_from_edges(4, edges, 8, self, NULL, &same));
  OK(weft_graph_equal(ring, same, &equal));
  CHECK(equal == 1);
  OK(weft_graph_free(same));
  OK(weft_graph_from_matrix(4, matrix, "from a matrix", &same));
  OK(weft_graph_equal(ring, same, &equal));
  CHECK(equal == 1);
  OK(weft_graph_name(same, &name));
  CHECK(strcmp(name, "from a matrix") == 0);
  OK(weft_graph_make("star", 4, &other));
  OK(weft_graph_equal(ring, other, &equal));
  CHECK(equal == 0);
  OK(weft_graph_free(other));
  OK(weft_graph_make("ring:style=2", 4, &other));
  weft_graph* push = NULL;
  OK(weft_graph_reweighted(other, "push_uniform", &push));
  INVALID(weft_graph_reweighted(other, "metropolis_hastings", &same),
          "");  // edges in one direction
  CHECK(same == NULL);
  INVALID(weft_graph_reweighted(other, "heavy", &same), "heavy");

  weft_graph* left = NULL;
  const int32_t gone[] = {2, 9};
  OK(weft_graph_without(ring, gone, 1, &left));
  INVALID(weft_graph_without(ring, gone, 2, &same), "rank 9 is outside");
  INVALID(weft_graph_without(ring, NULL, 1, &same), "gone is NULL");
  double weight = 0;
  OK(weft_graph_weight(left, 3, 1, &weight));
  CHECK(weight > 0);  // the neighbors of rank 2 have met
  OK(weft_graph_free(left));

  weft_graph_properties is = {.size = sizeof(is)};
  OK(weft_graph_get_properties(ring, &is));
  CHECK(is.is_regular && is.is_undirected && is.is_strongly_connected && is.is_row_stochastic);
  CHECK(is.is_column_stochastic && is.is_doubly_stochastic && is.max_in_degree == 2);
  OK(weft_graph_get_properties(push, &is));
  CHECK(!is.is_undirected && is.is_strongly_connected && is.max_out_degree == 1);
  weft_mixing mixing = {.size = sizeof(mixing)};
  OK(weft_graph_get_mixing(ring, &mixing));
  CHECK(fabs(mixing.sigma2 - 1.0 / 3) < 1e-9 && fabs(mixing.spectral_gap - 2.0 / 3) < 1e-9);
  CHECK(mixing.rounds > 1 && mixing.rounds < 20);
  char* text = NULL;
  OK(weft_graph_describe(ring, &text));
  CHECK(strstr(text, "ring") != NULL);
  weft_string_free(text);
  weft_string_free(NULL);
  OK(weft_graph_free(push));
  OK(weft_graph_free(other));
  OK(weft_graph_free(ring));
}

static void test_bad_graphs(void) {
  weft_graph* graph = (weft_graph*)&graph;
  INVALID(weft_graph_make("circle", 4, &graph), "circle");
  CHECK(graph == NULL);
  INVALID(weft_graph_make("ring", 0, &graph), "");
  INVALID(weft_graph_make("ring", -4, &graph), "");
  INVALID(weft_graph_make(NULL, 4, &graph), "weft_graph_make: spec is NULL");
  INVALID(weft_graph_make("ring", 4, NULL), "weft_graph_make: graph is NULL");
  const double self[2] = {0.5, 0.5};
  const weft_edge outside = {0, 2, 0.5}, infinite = {0, 1, INFINITY}, loop = {1, 1, 0.5};
  INVALID(weft_graph_from_edges(2, &outside, 1, self, "a", &graph), "0 -> 2");
  INVALID(weft_graph_from_edges(2, &infinite, 1, self, "a", &graph), "0 -> 1");
  INVALID(weft_graph_from_edges(2, &loop, 1, self, "a", &graph), "1 -> 1");
  INVALID(weft_graph_from_edges(2, &loop, (size_t)-1, self, "a", &graph), "edge_count is");
  INVALID(weft_graph_from_edges(-1, &loop, 1, self, "a", &graph), "");
  INVALID(weft_graph_from_edges(2, NULL, 1, self, "a", &graph), "edges is NULL");
  INVALID(weft_graph_from_edges(2, &loop, 1, NULL, "a", &graph), "self_weights is NULL");
  INVALID(weft_graph_from_matrix(2, NULL, "a", &graph), "weights is NULL");
  INVALID(weft_graph_from_matrix(INT32_MAX, self, "a", &graph), "");

  OK(weft_graph_make("ring", 2, &graph));
  weft_graph* const freed = graph;
  OK(weft_graph_free(graph));
  OK(weft_graph_free(NULL));
  int32_t size = 0;
  double weight = 0;
  int equal = 0;
  INVALID(weft_graph_size(freed, &size), "weft_graph_size: graph is no weft_graph");
  INVALID(weft_graph_free(freed), "weft_graph_free: graph is no weft_graph");
  OK(weft_graph_make("ring", 2, &graph));  // never gets the value of one that was freed
  INVALID(weft_graph_size(freed, &size), "no weft_graph");
  INVALID(weft_graph_size(NULL, &size), "weft_graph_size: graph is NULL");
  INVALID(weft_graph_size(graph, NULL), "size is NULL");
  INVALID(weft_graph_size((const weft_graph*)&size, &size), "no weft_graph");
  INVALID(weft_graph_name(graph, NULL), "name is NULL");
  INVALID(weft_graph_weight(graph, 2, 0, &weight), "to is 2");
  INVALID(weft_graph_weight(graph, 0, -1, &weight), "from is -1");
  INVALID(weft_graph_weight(graph, 0, 0, NULL), "weight is NULL");
  INVALID(weft_graph_equal(graph, NULL, &equal), "b is NULL");
  INVALID(weft_graph_edges(NULL, NULL, 0, NULL), "graph is NULL");
  INVALID(weft_graph_describe(graph, NULL), "text is NULL");
}

static void test_schedules(void) {
  weft_graph *ring = NULL, *all = NULL;
  weft_schedule *named = NULL, *made = NULL;
  OK(weft_graph_make("ring", 4, &ring));
  OK(weft_schedule_make("one_peer:ring", 4, &named));
  OK(weft_schedule_one_peer(ring, &made));
  OK(weft_graph_free(ring));
  uint64_t period = 0, cover = 0;
  int32_t size = 0;
  const char* name = NULL;
  OK(weft_schedule_period(made, &period));
  OK(weft_schedule_cover(made, &cover));
  OK(weft_schedule_size(made, &size));
  OK(weft_schedule_name(named, &name));
  CHECK(period == 2 && cover == 2 && size == 4 && strstr(name, "one_peer") != NULL);
  weft_peer in[2], out[2];
  weft_local_view view = {.size = sizeof(view), .in = in, .in_capacity = 2};
  view.out = out;
  view.out_capacity = 2;
  OK(weft_schedule_local_view(made, UINT64_MAX - 1, 1, &view));  // an even step: clockwise
  CHECK(view.out_count == 1 && out[0].rank == 2 && view.in_count == 1 && in[0].rank == 0);
  CHECK(view.self_weight == 0.5 && in[0].weight == 0.5);
  view.in_capacity = 0;
  view.in_count = 7;
  INVALID(weft_schedule_local_view(made, 0, 1, &view), "view->in has room for 0 of 1");
  CHECK(view.in_count == 1);
  view.in = view.out = NULL;
  view.out_capacity = 0;
  OK(weft_schedule_local_view(made, 0, 1, &view));
  INVALID(weft_schedule_local_view(made, 0, 4, &view), "rank is 4");
  INVALID(weft_schedule_local_view(made, 0, 0, NULL), "view is NULL");
  INVALID(weft_schedule_local_view(NULL, 0, 0, &view), "schedule is NULL");
  OK(weft_schedule_union_graph(made, &all));
  OK(weft_graph_make("ring", 4, &ring));
  int equal = 0;
  OK(weft_graph_equal(all, ring, &equal));
  CHECK(equal == 1);
  INVALID(weft_schedule_make("no_peer", 4, &named), "no_peer");
  CHECK(named == NULL);
  INVALID(weft_schedule_make("undirected_one_peer", 3, &named), "");
  INVALID(weft_schedule_make("one_peer:ring", 4, NULL), "schedule is NULL");
  INVALID(weft_schedule_step_graph(made, 0, NULL), "graph is NULL");
  INVALID(weft_schedule_period((const weft_schedule*)ring, &period),
          "schedule is no weft_schedule");
  OK(weft_schedule_free(made));
  INVALID(weft_schedule_free(made), "no weft_schedule");
  OK(weft_graph_free(all));
  OK(weft_graph_free(ring));
}

int main(void) {
  bound_time(60);
  test_graphs();
  test_bad_graphs();
  test_schedules();
  return 0;
}
