// algorithms_pieces: gradient exchange of the C API, bundles of layers, and objects that are freed before they
// have ended.
#include "tests/c/algorithms.h"

enum { kColayers = 3 };
static const size_t sizes[kColayers] = {200, 60, 40};

// Convolutions of 50 and 60 elements, and a fully connected layer of 70.
void test_bundles(void) {
  const size_t counts[] = {70, 60, 50};
  const int32_t kinds[] = {1, 0, 0};
  int32_t colayer_of[3] = {9, 9, 9};
  OK(weft_bundle_layers(counts, kinds, 3, 2, colayer_of));
  CHECK(colayer_of[0] == 0 && colayer_of[1] == 1 && colayer_of[2] == 1);
  OK(weft_bundle_layers(counts, NULL, 3, 3, colayer_of));
  CHECK(colayer_of[0] == 0 && colayer_of[1] == 1 && colayer_of[2] == 2);
  INVALID(weft_bundle_layers(counts, kinds, 3, 4, colayer_of), "4 colayers of 3 layers");
  INVALID(weft_bundle_layers(counts, kinds, 3, -1, colayer_of), "-1 colayers of 3 layers");
  INVALID(weft_bundle_layers(NULL, kinds, 3, 2, colayer_of), "counts is NULL");
  INVALID(weft_bundle_layers(counts, kinds, 3, 2, NULL), "colayer_of is NULL");
}

static weft_gradient_exchange* create(const struct ranks* all, double* x,
                                      const weft_gradient_exchange_options* options) {
  weft_gradient_exchange* exchange = NULL;
  set(x, 1);
  OK(weft_gradient_exchange_create(all->context, x, kElements, WEFT_F64, sizes, kColayers, options,
                                   &exchange));
  return exchange;
}
static void push_all(weft_gradient_exchange* exchange, const double* slope) {
  for (int32_t each = 0; each < kColayers; ++each)
    OK(weft_gradient_exchange_push(exchange, each, slope, sizes[each], WEFT_F64));
}

// All ranks' gradients are in each mean, and the model goes down by it.
static void test_bulk(const struct ranks* all) {
  double x[kElements], slope[kElements], mean[kElements];
  int32_t contributors[kColayers];
  size_t count = 9;
  int64_t number = 0;
  uint64_t words[64];
  const weft_gradient_exchange_options options = {
      .size = sizeof(options), .rule = "bulk", .rate = 0.5};
  weft_gradient_exchange* exchange = create(all, x, &options);
  OK(weft_gradient_exchange_iteration(exchange, &number));
  OK(weft_gradient_exchange_contributors(exchange, contributors, kColayers, &count));
  CHECK(number == -1 && count == 0);
  INVALID(weft_gradient_exchange_push(exchange, 0, x, sizes[0], WEFT_F64),
          "no iteration has begun");
  set(slope, all->rank);
  for (int step = 0; step < 4; ++step) {
    weft_ended_iteration ended = {.size = sizeof(ended)};
    OK(weft_gradient_exchange_begin(exchange));
    push_all(exchange, slope);
    OK(weft_gradient_exchange_end_iteration(exchange, mean, kElements, WEFT_F64, &ended));
    CHECK(ended.number == step && ended.is_dropped == 0 && ended.pulled_from == WEFT_NO_RANK);
    CHECK(is_all(mean, mean_of(all)) && is_all(x, 1 - 0.5 * (step + 1) * mean_of(all)));
  }
  OK(weft_gradient_exchange_contributors(exchange, NULL, 0, &count));
  CHECK(count == kColayers);
  INVALID(weft_gradient_exchange_contributors(exchange, contributors, 2, &count), "has room for 2");
  OK(weft_gradient_exchange_contributors(exchange, contributors, kColayers, &count));
  for (int each = 0; each < kColayers; ++each) CHECK(contributors[each] == all->size);
  OK(weft_gradient_exchange_index(exchange, words, 64, &count));
  CHECK(count > 0);
  weft_gradient_exchange_counts counts = {.size = sizeof(counts)};
  OK(weft_gradient_exchange_get_counts(exchange, &counts));
  CHECK(counts.iterations == 4 && counts.dropped == 0 && counts.pulls == 0);
  CHECK(counts.bytes == 4 * (uint64_t)(all->size - 1) * kElements * sizeof(double));
  OK(weft_gradient_exchange_end(exchange));
  FAILS(weft_gradient_exchange_begin(exchange), WEFT_CLOSED, "has ended");
  OK(weft_gradient_exchange_free(exchange));
  INVALID(weft_gradient_exchange_begin(exchange), "exchange is no weft_gradient_exchange");
}

// Each rank adds up its shares of the gradients. They travel in 16 bits, which have small whole numbers exactly.
static void test_mesh(const struct ranks* all) {
  float x[kElements] = {0}, slope[kElements], mean[kElements];
  weft_gradient_exchange* exchange = NULL;
  const weft_gradient_exchange_options options = {.size = sizeof(options),
                                                  .rule = "bulk",
                                                  .compression = WEFT_COMPRESSION_F16,
                                                  .topology = "mesh"};
  for (size_t i = 0; i < kElements; ++i) slope[i] = (float)(all->rank * all->size);
  OK(weft_gradient_exchange_create(all->context, x, kElements, WEFT_F32, sizes, kColayers, &options,
                                   &exchange));
  for (int step = 0; step < 3; ++step) {
    OK(weft_gradient_exchange_begin(exchange));
    for (int32_t each = 0; each < kColayers; ++each)
      OK(weft_gradient_exchange_push(exchange, each, slope, sizes[each], WEFT_F32));
    OK(weft_gradient_exchange_end_iteration(exchange, mean, kElements, WEFT_F32, NULL));
    for (size_t i = 0; i < kElements; ++i) CHECK(mean[i] == (float)(mean_of(all) * all->size));
  }
  weft_gradient_exchange_counts counts = {.size = sizeof(counts)};
  OK(weft_gradient_exchange_get_counts(exchange, &counts));
  CHECK(counts.bytes <= 3 * 2 * (kElements + 3 * (uint64_t)all->size) * sizeof(float));
  OK(weft_gradient_exchange_end(exchange));
  OK(weft_gradient_exchange_free(exchange));
}

// A rank that has pushed nothing while the others went on has their gradients dropped, and takes the model of the
// fastest. Rank 0 goes on alone, so it is that.
static void test_canary(const struct ranks* all) {
  double x[kElements], slope[kElements], mean[kElements];
  int64_t staleness = 0;
  const weft_gradient_exchange_options options = {.size = sizeof(options),
                                                  .name = "late",
                                                  .rate = 0.5,
                                                  .staleness = 2,
                                                  .proportion = 2,
                                                  .has_staleness = 1,
                                                  .has_proportion = 1};
  weft_gradient_exchange* exchange = create(all, x, &options);
  set(slope, 1);
  OK(weft_gradient_exchange_begin(exchange));
  OK(weft_barrier(all->context));
  for (int step = 0; all->rank == 0 && step < 4; ++step) {
    push_all(exchange, slope);
    OK(weft_gradient_exchange_end_iteration(exchange, mean, kElements, WEFT_F64, NULL));
    OK(weft_gradient_exchange_begin(exchange));
  }
  OK(weft_barrier(all->context));
  OK(weft_gradient_exchange_staleness(exchange, &staleness));
  CHECK(staleness == (all->rank == 0 ? 0 : 4));
  weft_ended_iteration ended = {.size = sizeof(ended)};
  if (all->rank != 0) push_all(exchange, slope);
  OK(weft_gradient_exchange_end_iteration(exchange, mean, kElements, WEFT_F64, &ended));
  CHECK(ended.is_dropped == (all->rank != 0));
  CHECK(ended.pulled_from == (all->rank == 0 ? WEFT_NO_RANK : 0));
  CHECK(is_all(x, 1 - 0.5 * 4));
  OK(weft_barrier(all->context));  // all have pulled
  INVALID(weft_gradient_exchange_update(exchange, NULL, x), "change is NULL");
  OK(weft_gradient_exchange_update(exchange, add_one, x));
  CHECK(is_all(x, 0));
  OK(weft_gradient_exchange_end(exchange));
  OK(weft_gradient_exchange_free(exchange));
}

static void test_bad_calls(const struct ranks* all) {
  double x[kElements], mean[kElements] = {0};
  weft_gradient_exchange* exchange = NULL;
  weft_gradient_exchange_options options = {.size = sizeof(options), .rule = "eager"};
#define REFUSED(colayers, code, text)                                                            \
  FAILS(weft_gradient_exchange_create(all->context, x, kElements, WEFT_F64, colayers, kColayers, \
                                      &options, &exchange),                                      \
        code, text);                                                                             \
  CHECK(exchange == NULL)
  REFUSED(sizes, WEFT_INVALID_ARGUMENT, "there is no exchange rule 'eager'");
  REFUSED(NULL, WEFT_INVALID_ARGUMENT, "colayers is NULL");
  options.rule = NULL;
  options.topology = "ring";
  REFUSED(sizes, WEFT_INVALID_ARGUMENT, "there is no exchange topology 'ring'");
  options.topology = NULL;
  options.compression = 9;
  REFUSED(sizes, WEFT_INVALID_ARGUMENT, "options->compression is 9");
  options.compression = WEFT_COMPRESSION_SKETCH;
  REFUSED(sizes, WEFT_INVALID_ARGUMENT, "a model of f64 cannot be compressed");
  options.compression = WEFT_COMPRESSION_NONE;
  options.staleness = 3;
  REFUSED(sizes, WEFT_INVALID_ARGUMENT,
          "options->staleness is set, but options->has_staleness is 0");
  options.has_staleness = 2;
  REFUSED(sizes, WEFT_INVALID_ARGUMENT, "options->has_staleness is 2");
  options.has_staleness = 1;
  options.has_proportion = 1;
  options.proportion = 4;
  REFUSED(sizes, WEFT_INVALID_ARGUMENT, "a proportion of 4 of 3 colayers");
  options.proportion = all->rank == 1 ? 1 : 2;
  if (all->size > 1) REFUSED(sizes, WEFT_MISMATCH, "ranks 0 and 1 disagree");
  options.proportion = 1;
  options.rate = -1;
  REFUSED(sizes, WEFT_INVALID_ARGUMENT, "the rate is -1");
#undef REFUSED
  exchange = create(all, x, NULL);
  OK(weft_gradient_exchange_begin(exchange));
  INVALID(weft_gradient_exchange_push(exchange, 3, x, 40, WEFT_F64), "colayer 3 is not one of 0…2");
  INVALID(weft_gradient_exchange_push(exchange, 0, x, 40, WEFT_F64), "colayer 0 has 40 elements");
  INVALID(weft_gradient_exchange_push(exchange, 0, x, 200, 99), "type is 99");
  INVALID(weft_gradient_exchange_iteration(exchange, NULL), "iteration is NULL");
  weft_ended_iteration ended = {.size = 3};
  INVALID(weft_gradient_exchange_end_iteration(exchange, mean, kElements, WEFT_F64, &ended),
          "ended->size is 3");
  INVALID(weft_gradient_exchange_end_iteration(exchange, mean, 3, WEFT_F64, NULL),
          "the mean has 3 elements");
  OK(weft_gradient_exchange_end_iteration(exchange, mean, kElements, WEFT_F64, NULL));
  OK(weft_gradient_exchange_end(exchange));
  OK(weft_gradient_exchange_free(exchange));
}

void test_gradient_exchange(const struct ranks* all) {
  test_bulk(all);
  test_mesh(all);
  test_canary(all);
  test_bad_calls(all);
}

// What other ranks write to stays until the context is closed, and the others go on.
void test_freed_early(const struct ranks* all) {
  double x[kElements], y[kElements], slope[kElements], mean[kElements];
  const weft_gradient_exchange_options options = {.size = sizeof(options), .rule = "asynchronous"};
  const weft_partial_allreduce_options scheduled = {.size = sizeof(scheduled), .law = "static"};
  weft_gradient_exchange* exchange = create(all, x, &options);
  weft_partial_allreduce* partial = NULL;
  set(slope, 1);
  set(y, 1);
  OK(weft_partial_allreduce_create(all->context, y, kElements, WEFT_F64, &scheduled, &partial));
  OK(weft_partial_allreduce_average(partial, NULL, 0, NULL));
  OK(weft_barrier(all->context));
  OK(weft_gradient_exchange_begin(exchange));
  push_all(exchange, slope);
  if (all->rank == 0) {
    OK(weft_gradient_exchange_free(exchange));
    OK(weft_partial_allreduce_free(partial));
  }
  for (int step = 0; all->rank != 0 && step < 10; ++step) {
    OK(weft_gradient_exchange_end_iteration(exchange, mean, kElements, WEFT_F64, NULL));
    OK(weft_gradient_exchange_begin(exchange));
    push_all(exchange, slope);
    OK(weft_partial_allreduce_average(partial, NULL, 0, NULL));
  }
  OK(weft_barrier(all->context));
  OK(weft_context_close(all->context));
  if (all->rank == 0) return;
  FAILS(weft_gradient_exchange_begin(exchange), WEFT_CLOSED, "the context of exchange was closed");
  FAILS(weft_partial_allreduce_begin(partial), WEFT_CLOSED, "the context of partial was closed");
  OK(weft_gradient_exchange_free(exchange));
  OK(weft_partial_allreduce_free(partial));
}
