// strategies_test: strategies of the C API by their names, and bad calls. The ranks are those of the
// launcher, or with an argument that many threads of this program.
#include "tests/c/job.h"
#include "tests/c/operations.h"

enum { kElements = 40, kMostNames = 64 };
static const double kRate = 0.1;

// The slope of (x - r)^2 / 2 at rank r: the mean of all ranks pulls to the mean of their numbers.
static void slope_at(const struct ranks* all, const double* x, double* slope) {
  for (size_t i = 0; i < kElements; ++i) slope[i] = x[i] - all->rank;
}
static double mean_of(const struct ranks* all) {
  return (all->size - 1) / 2.0;
}

static weft_strategy* create(const struct ranks* all, const char* name, double* x,
                             const weft_strategy_options* options) {
  weft_strategy* strategy = NULL;
  for (size_t i = 0; i < kElements; ++i) x[i] = all->rank == 0 ? 5 : -1;
  OK(weft_strategy_create(all->context, name, x, kElements, WEFT_F64, options, &strategy));
  CHECK(x[0] == 5);  // the model of rank 0
  return strategy;
}
static void take_step(const struct ranks* all, weft_strategy* strategy, double* x) {
  double slope[kElements];
  if (all->rank % 2 == 0) OK(weft_strategy_begin(strategy));  // else step() does so
  slope_at(all, x, slope);
  OK(weft_strategy_step(strategy, slope, kElements, WEFT_F64));
}
static void end(weft_strategy* strategy) {
  OK(weft_strategy_end(strategy));
  FAILS(weft_strategy_begin(strategy), WEFT_CLOSED, "has ended");
  OK(weft_strategy_free(strategy));
}

// Whether ranks may take different numbers of steps.
static int is_free(const char* name) {
  static const char* const all[] = {"ad_psgd", "prague", "prague:random", "canary",
                                    "canary:asynchronous"};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
    if (strcmp(name, all[i]) == 0) return 1;
  return 0;
}

// Whatever the strategy, its ranks come nearer to the model of least loss.
static void test_each(const struct ranks* all) {
  const char* names[kMostNames];
  size_t count = 0, named = 0;
  OK(weft_strategy_names(NULL, 0, &count));
  CHECK(count >= 15 && count <= kMostNames);
  INVALID(weft_strategy_names(names, 1, &count), "names has room for 1 of");
  OK(weft_strategy_names(names, kMostNames, &named));
  CHECK(named == count);
  for (size_t i = 0; i < count; ++i) {
    double x[kElements], mean = 0;
    const char* name = NULL;
    weft_strategy* strategy = create(all, names[i], x, NULL);
    OK(weft_strategy_name(strategy, &name));
    CHECK(strcmp(name, names[i]) == 0);
    int32_t free_running = -1;
    OK(weft_strategy_runs_free(strategy, &free_running));
    CHECK(free_running == is_free(name));
    for (int step = 0; step < 20; ++step) take_step(all, strategy, x);
    weft_strategy_counts counts = {.size = sizeof(counts)};
    OK(weft_strategy_get_counts(strategy, &counts));
    CHECK(counts.steps == 20 && (counts.dropped == 0 || strcmp(name, "canary") == 0));
    end(strategy);
    uint64_t bytes = 0;  // of all ranks: one of an odd number is in no pair
    OK(weft_allreduce(all->context, &counts.bytes, &bytes, 1, WEFT_U64, WEFT_SUM));
    CHECK((bytes > 0) == (all->size > 1));
    OK(weft_allreduce(all->context, &x[7], &mean, 1, WEFT_F64, WEFT_AVERAGE));
    CHECK(mean - mean_of(all) < (5 - mean_of(all)) / 2);
  }
}

// x := x - r mean(g), with momentum and with a rate that changes.
static void test_allreduce(const struct ranks* all) {
  double x[kElements], expected = 5, momentum = 0;
  const weft_strategy_options options = {
      .size = sizeof(options), .rate = 0.5, .momentum = 0.5, .has_momentum = 1};
  weft_strategy* strategy = create(all, "allreduce", x, &options);
  OK(weft_strategy_set_rate(strategy, kRate));
  for (int step = 0; step < 5; ++step) {
    take_step(all, strategy, x);
    momentum = 0.5 * momentum + expected - mean_of(all);
    expected -= kRate * momentum;
    CHECK(is_near(x[0], expected) && is_near(x[kElements - 1], expected));
  }
  end(strategy);
}

// Two steps alone, and the outer step of a whole section: R is 1 and there is no momentum, so that it
// is the mean.
static void test_sections(const struct ranks* all) {
  double x[kElements], mine = 5, mean = 5;
  const weft_strategy_options options = {.size = sizeof(options),
                                         .rate = kRate,
                                         .outer_rate = 1,
                                         .section = 2,
                                         .has_outer_rate = 1,
                                         .has_outer_momentum = 1};
  weft_strategy* strategy = create(all, "diloco", x, &options);
  for (int step = 1; step <= 6; ++step) {
    take_step(all, strategy, x);
    mine -= kRate * (mine - all->rank);
    mean -= kRate * (mean - mean_of(all));
    if (step % 2 == 0) mine = mean;
    CHECK(is_near(x[3], mine));
  }
  end(strategy);
}

// All ranks' gradients are in each mean, in two pieces.
static void test_pieces(const struct ranks* all, const char* topology) {
  double x[kElements], mean = 5;
  const weft_strategy_options options = {
      .size = sizeof(options), .rate = kRate, .colayers = 2, .topology = topology};
  weft_strategy* strategy = create(all, "canary:bulk", x, &options);
  for (int step = 1; step <= 4; ++step) {
    take_step(all, strategy, x);
    mean -= kRate * (mean - mean_of(all));
    CHECK(is_near(x[0], mean) && is_near(x[kElements - 1], mean));
  }
  end(strategy);
}

static void test_bad_calls(const struct ranks* all) {
  double x[kElements] = {0}, slope[kElements] = {0};
  weft_strategy* strategy = NULL;
  weft_strategy_options options = {.size = sizeof(options), .momentum = 0.5};
#define REFUSED(code, name, text)                                                              \
  FAILS(weft_strategy_create(all->context, name, x, kElements, WEFT_F64, &options, &strategy), \
        code, text);                                                                           \
  CHECK(strategy == NULL)
  REFUSED(WEFT_INVALID_ARGUMENT, "sgp", "options->momentum is set, but options->has_momentum is 0");
  options.has_momentum = 2;
  REFUSED(WEFT_INVALID_ARGUMENT, "sgp", "options->has_momentum is 2");
  options.has_momentum = 1;
  REFUSED(WEFT_INVALID_ARGUMENT, "ad_psgd", "it has no momentum");
  REFUSED(WEFT_INVALID_ARGUMENT, "hogwild", "there is no strategy \"hogwild\", only ");
  REFUSED(WEFT_INVALID_ARGUMENT, NULL, "name is NULL");
  options.topology = "ring";
  REFUSED(WEFT_INVALID_ARGUMENT, "canary", "there is no exchange topology 'ring'");
  options.topology = NULL;
  options.peers = -1;
  REFUSED(WEFT_INVALID_ARGUMENT, "sgp", "peers is -1; 1 or 2 is needed");
  options.peers = 0;
  options.compression = 9;
  REFUSED(WEFT_INVALID_ARGUMENT, "allreduce", "options->compression is 9");
  options.compression = WEFT_COMPRESSION_NONE;
  options.has_momentum = 0;
  options.momentum = 0;
  options.staleness = 3;
  REFUSED(WEFT_INVALID_ARGUMENT, "canary",
          "options->staleness is set, but options->has_staleness is 0");
  options.has_staleness = 1;
  REFUSED(WEFT_INVALID_ARGUMENT, "canary:bulk", "it has no staleness");
  options.colayers = 2;
  options.has_proportion = 1;
  options.proportion = 3;
  REFUSED(WEFT_INVALID_ARGUMENT, "canary", "a proportion of 3 of 2 colayers");
  options = (weft_strategy_options){.size = sizeof(options), .has_momentum = 1};
  if (all->size > 1) {
    options.momentum = all->rank == 0 ? 0.5 : 0.25;
    REFUSED(WEFT_MISMATCH, "sgp", "ranks 0 and 1 disagree");
  }
  strategy = create(all, "dpsgd", x, NULL);
  INVALID(weft_strategy_step(strategy, slope, 3, WEFT_F64), "the gradient has 3 elements of f64");
  INVALID(weft_strategy_step(strategy, slope, kElements, 99), "type is 99");
  INVALID(weft_strategy_set_rate(strategy, -1), "the rate is -1");
  INVALID(weft_strategy_name(strategy, NULL), "name is NULL");
  end(strategy);
  INVALID(weft_strategy_step(strategy, slope, kElements, WEFT_F64), "strategy is no weft_strategy");
}

// What other ranks write to stays until the context is closed.
static void test_freed_early(const struct ranks* all, double* x, double* y) {
  const weft_strategy_options options = {.size = sizeof(options), .name = "left"};
  weft_strategy* left = create(all, "ad_psgd", x, &options);
  weft_strategy* while_travelling = create(all, "dpsgd:awc", y, NULL);
  take_step(all, left, x);
  OK(weft_strategy_begin(while_travelling));
  OK(weft_strategy_free(while_travelling));
  if (all->rank == 0) OK(weft_strategy_free(left));
  for (int step = 0; step < 10 && all->rank != 0; ++step) take_step(all, left, x);
  OK(weft_barrier(all->context));
  OK(weft_context_close(all->context));
  if (all->rank != 0) {
    FAILS(weft_strategy_begin(left), WEFT_CLOSED, "the context of strategy was closed");
    OK(weft_strategy_free(left));
  }
}

static void test_all(weft_context* context) {
  const struct ranks all = ranks_of(context);
  double x[kElements], y[kElements];
  test_each(&all);
  test_allreduce(&all);
  test_sections(&all);
  test_pieces(&all, NULL);
  test_pieces(&all, "mesh");
  test_bad_calls(&all);
  test_freed_early(&all, x, y);
}

int main(int argc, char** argv) {
  return run_test(argc, argv, test_all);
}
