// operations_neighbor: operations between neighbors, with the graph's weights and with weights of a
// call.
#include "tests/c/operations.h"

// What each edge's weight of a graph makes of the values.
static void check_sums(const struct ranks* all, const weft_graph* graph, const float* y) {
  for (size_t i = 0; i < kCount; ++i) {
    double sum = 0;
    for (int32_t from = 0; from < all->size; ++from) {
      double weight = 0;
      OK(weft_graph_weight(graph, all->rank, from, &weight));
      sum += weight * value_of(from, i);
    }
    CHECK(is_near(y[i], sum));
  }
}

// A graph in which the rank before gives two thirds and the rank itself one third.
static weft_graph* ring_with_weights(int32_t n) {
  weft_edge edges[64];
  double self[64];
  CHECK(n <= 64);
  for (int32_t rank = 0; rank < n; ++rank) {
    edges[rank] = (weft_edge){.from = rank, .to = (rank + 1) % n, .weight = 2.0 / 3};
    self[rank] = n > 1 ? 1.0 / 3 : 1.0;
  }
  weft_graph* graph = NULL;
  OK(weft_graph_from_edges(n, edges, n > 1 ? (size_t)n : 0, self, "two thirds", &graph));
  return graph;
}

static void test_graph_weights(const struct ranks* all) {
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  weft_graph* exponential = NULL;
  OK(weft_graph_make("exponential", all->size, &exponential));
  OK(weft_context_set_graph(all->context, exponential, 0));
  BOTH_WAYS(y, check_sums(all, exponential, y), weft_neighbor_allreduce, all->context, x, y, kCount,
            WEFT_F32, NULL);
  weft_graph* ring = ring_with_weights(all->size);
  OK(weft_context_set_graph(all->context, ring, 1));
  BOTH_WAYS(y, check_sums(all, ring, y), weft_neighbor_allreduce, all->context, x, y, kCount,
            WEFT_F32, NULL);
  weft_graph* set = NULL;
  int equal = 0;
  OK(weft_context_graph(all->context, &set));
  OK(weft_graph_equal(set, ring, &equal));
  CHECK(equal == 1);
  OK(weft_graph_free(set));
  OK(weft_graph_free(ring));
  OK(weft_context_set_graph(all->context, exponential, 0));
  OK(weft_graph_free(exponential));
}

// On the exponential graph of at least two ranks.
static void test_call_weights(const struct ranks* all) {
  const int32_t before = (all->rank + all->size - 1) % all->size;
  const int32_t after = (all->rank + 1) % all->size;
  const weft_peer from = {before, 0.25}, to = {after, 0.25};
  const double expected = 0.75 * value_of(all->rank, 3) + 0.25 * value_of(before, 3);
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  weft_weights weights = {.size = sizeof(weights), .has_self_weight = 1, .self_weight = 0.75};
  weights.sources = &from;
  weights.source_count = 1;
  BOTH_WAYS(y, CHECK(is_near(y[3], expected)), weft_neighbor_allreduce, all->context, x, y, kCount,
            WEFT_F32, &weights);  // pull
  weights.sources = NULL;
  weights.source_count = 0;
  weights.destinations = &to;
  weights.destination_count = 1;
  weights.is_push_sum = 1;
  BOTH_WAYS(y, CHECK(is_near(y[3], expected)), weft_neighbor_allreduce, all->context, x, y, kCount,
            WEFT_F32, &weights);                                      // push
  const weft_peer back_from = {after, 0.5}, back_to = {before, 0.5};  // edges that may not exist
  const double there = 0.75 * value_of(all->rank, 3) + 0.25 * value_of(after, 3);
  weights.is_push_sum = 0;
  weights.sources = &back_from;
  weights.source_count = 1;
  weights.destinations = &back_to;
  BOTH_WAYS(y, CHECK(is_near(y[3], there)), weft_neighbor_allreduce, all->context, x, y, kCount,
            WEFT_F32, &weights);
  weights.source_count = 0;  // empty, not absent
  weights.destination_count = 0;
  BOTH_WAYS(y, CHECK(is_near(y[3], 0.75 * value_of(all->rank, 3))), weft_neighbor_allreduce,
            all->context, x, y, kCount, WEFT_F32, &weights);
}

// Every step of a schedule, as weft/c/schedule.h says to use it.
static void test_schedule(const struct ranks* all) {
  weft_schedule* schedule = NULL;
  uint64_t period = 0;
  OK(weft_schedule_make("one_peer_exponential", all->size, &schedule));
  OK(weft_schedule_period(schedule, &period));
  for (uint64_t step = 0; step < period; ++step) {
    weft_peer in[8], out[8];
    weft_local_view view = {
        .size = sizeof(view), .in = in, .in_capacity = 8, .out = out, .out_capacity = 8};
    OK(weft_schedule_local_view(schedule, step, all->rank, &view));
    for (size_t i = 0; i < view.out_count; ++i) out[i].weight = 1;
    const weft_weights weights = {.size = sizeof(weights),
                                  .has_self_weight = 1,
                                  .self_weight = view.self_weight,
                                  .sources = in,
                                  .source_count = view.in_count,
                                  .destinations = out,
                                  .destination_count = view.out_count};
    float x[kCount], y[kCount];
    fill(x, kCount, all->rank);
    weft_graph* graph = NULL;
    OK(weft_schedule_step_graph(schedule, step, &graph));
    BOTH_WAYS(y, check_sums(all, graph, y), weft_neighbor_allreduce, all->context, x, y, kCount,
              WEFT_F32, &weights);
    OK(weft_graph_free(graph));
  }
  OK(weft_schedule_free(schedule));
}

static void test_allgather(const struct ranks* all) {
  weft_graph* graph = NULL;
  weft_peer in[64];
  size_t degree = 0;
  OK(weft_context_graph(all->context, &graph));
  OK(weft_graph_in_peers(graph, all->rank, in, 64, &degree));
  OK(weft_graph_free(graph));
  float x[kMostElements], y[kMostElements];
  fill(x, kMostElements, all->rank);
  BOTH_WAYS(y,
            for (size_t i = 0; i < 2 * degree; ++i) CHECK(y[i] == value_of(in[i / 2].rank, i % 2)),
            weft_neighbor_allgather, all->context, x, 2, y, 2 * degree, WEFT_F32, NULL, 0);
  size_t counts[64], sum = 0;  // rank r gives r + 1 elements
  for (size_t i = 0; i < degree; ++i) sum += counts[i] = (size_t)in[i].rank + 1;
  const size_t last = degree == 0 ? 0 : counts[degree - 1];
  BOTH_WAYS(y, if (last > 0) CHECK(y[sum - 1] == value_of(in[degree - 1].rank, last - 1)),
            weft_neighbor_allgather, all->context, x, (size_t)all->rank + 1, y, sum, WEFT_F32,
            counts, degree);
}

static void test_machines(const struct ranks* all) {
  int32_t machines = 0;
  weft_placement place = {.size = sizeof(place)};
  OK(weft_context_placement(all->context, &place));
  OK(weft_context_machine_size(all->context, &machines));
  weft_graph* graph = NULL;
  OK(weft_context_machine_graph(all->context, &graph));
  CHECK(graph == NULL);
  OK(weft_graph_make("fully_connected", machines, &graph));
  OK(weft_context_set_machine_graph(all->context, graph, 0));
  OK(weft_graph_free(graph));
  OK(weft_context_machine_graph(all->context, &graph));
  CHECK(graph != NULL);
  OK(weft_graph_free(graph));
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  const double mean = (value_of(0, 1) + value_of(all->size - 1, 1)) / 2;
  BOTH_WAYS(y, CHECK(!place.is_homogeneous || is_near(y[1], mean)),
            weft_hierarchical_neighbor_allreduce, all->context, x, y, kCount, WEFT_F32, NULL);
}

void test_neighbors(const struct ranks* all) {
  test_graph_weights(all);
  if (all->size > 1) test_call_weights(all);
  test_schedule(all);
  test_allgather(all);
  test_machines(all);
}
