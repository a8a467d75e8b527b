// algorithms_test: the algorithms of the C API, and bad calls. Those here are push-sum, D-PSGD, AD-PSGD and bounded
// staleness. The ranks are those of the launcher, or with an argument that many threads of this program.
#include "tests/c/algorithms.h"

#include "tests/c/job.h"

static weft_schedule* schedule_of(const struct ranks* all, const char* spec) {
  weft_schedule* schedule = NULL;
  OK(weft_schedule_make(spec, all->size, &schedule));
  return schedule;
}

// Four ranks hold the exact mean after two steps of the one-peer exponential schedule.
static void test_push_sum(const struct ranks* all) {
  double x[kElements], z[kElements], weight = 0;
  uint64_t steps = 0;
  weft_schedule* schedule = schedule_of(all, "one_peer_exponential");
  weft_push_sum* push_sum = NULL;
  set(x, all->rank);
  OK(weft_push_sum_create(all->context, schedule, x, kElements, WEFT_F64, NULL, &push_sum));
  OK(weft_push_sum_step(push_sum));
  OK(weft_push_sum_begin_step(push_sum));
  OK(weft_push_sum_end_step(push_sum, -1));
  OK(weft_push_sum_steps(push_sum, &steps));
  CHECK(steps == 2);
  OK(weft_push_sum_weight(push_sum, &weight));
  CHECK(is_near(weight, 1));
  OK(weft_push_sum_debias(push_sum, z, kElements, WEFT_F64));
  if (all->size == 4) CHECK(is_all(z, mean_of(all)));
  INVALID(weft_push_sum_debias(push_sum, z, 3, WEFT_F64), "elements");
  INVALID(weft_push_sum_debias(push_sum, z, kElements, 99), "type is 99");
  INVALID(weft_push_sum_weight(push_sum, NULL), "weight is NULL");
  OK(weft_push_sum_settle(push_sum));
  OK(weft_push_sum_end(push_sum));
  OK(weft_push_sum_free(push_sum));
  INVALID(weft_push_sum_step(push_sum), "push_sum is no weft_push_sum");
  const weft_push_sum_options late = {.size = sizeof(late), .name = "late", .lag = 1};
  set(x, all->rank);
  OK(weft_push_sum_create(all->context, schedule, x, kElements, WEFT_F64, &late, &push_sum));
  for (int step = 0; step < 60; ++step) OK(weft_push_sum_step(push_sum));
  OK(weft_push_sum_settle(push_sum));
  OK(weft_push_sum_debias(push_sum, z, kElements, WEFT_F64));
  if (all->size == 4) CHECK(is_all(z, mean_of(all)));
  OK(weft_push_sum_end(push_sum));
  OK(weft_push_sum_free(push_sum));
  OK(weft_schedule_free(schedule));
}

static void test_dpsgd(const struct ranks* all) {
  if (all->size % 2 != 0) return;
  double x[kElements];
  uint64_t steps = 0;
  weft_schedule* schedule = schedule_of(all, "undirected_one_peer");
  weft_dpsgd* dpsgd = NULL;
  set(x, all->rank);
  OK(weft_dpsgd_create(all->context, schedule, &dpsgd));
  for (int step = 0; step < 4; ++step) OK(weft_dpsgd_step(dpsgd, x, x, kElements, WEFT_F64));
  OK(weft_dpsgd_steps(dpsgd, &steps));
  CHECK(steps == 4);
  CHECK(is_near(mean_over(all, x[7]), mean_of(all)));
  OK(weft_dpsgd_free(dpsgd));
  OK(weft_schedule_free(schedule));
}

static void test_ad_psgd(const struct ranks* all) {
  double x[kElements], y[kElements];
  int32_t peer = -2;
  const weft_ad_psgd_options options = {.size = sizeof(options), .seed = 5};
  weft_ad_psgd* ad_psgd = NULL;
  set(x, all->rank);
  OK(weft_ad_psgd_create(all->context, x, kElements, WEFT_F64, &options, &ad_psgd));
  for (int step = 0; step < 20; ++step) OK(weft_ad_psgd_average(ad_psgd, &peer));
  CHECK(peer >= 0 && peer < all->size && peer != all->rank);
  OK(weft_ad_psgd_average_with(ad_psgd, peer));
  OK(weft_ad_psgd_update(ad_psgd, add_one, x));
  OK(weft_barrier(all->context));
  OK(weft_ad_psgd_read(ad_psgd, y, kElements, WEFT_F64));
  CHECK(is_near(mean_over(all, y[3]), mean_of(all) + 1));
  INVALID(weft_ad_psgd_update(ad_psgd, NULL, NULL), "change is NULL");
  INVALID(weft_ad_psgd_average_with(ad_psgd, all->rank), "neighbor");
  OK(weft_barrier(all->context));
  OK(weft_ad_psgd_end(ad_psgd));
  OK(weft_ad_psgd_free(ad_psgd));
}

static void test_bounded_staleness(const struct ranks* all) {
  double x[kElements];
  uint64_t version = 0, versions[64];
  size_t count = 0;
  weft_bounded_staleness_options options = {.size = sizeof(options), .bound = 2};
  weft_bounded_staleness* staleness = NULL;
  set(x, all->rank);
  INVALID(weft_bounded_staleness_create(all->context, x, kElements, WEFT_F64, &options, &staleness),
          "options->has_bound is 0");
  options.has_bound = 1;
  OK(weft_bounded_staleness_create(all->context, x, kElements, WEFT_F64, &options, &staleness));
  for (int step = 0; step < 10; ++step) OK(weft_bounded_staleness_step(staleness));
  OK(weft_bounded_staleness_publish(staleness));
  OK(weft_bounded_staleness_wait(staleness, -1));
  OK(weft_bounded_staleness_average(staleness));
  OK(weft_bounded_staleness_version(staleness, &version));
  CHECK(version == 11);
  OK(weft_bounded_staleness_delivered(staleness, versions, 64, &count));
  for (size_t i = 0; i < count; ++i) CHECK(versions[i] + 2 >= version);
  OK(weft_barrier(all->context));
  OK(weft_bounded_staleness_end(staleness));
  OK(weft_bounded_staleness_free(staleness));
}

static void test_all(weft_context* context) {
  const struct ranks all = ranks_of(context);
  test_push_sum(&all);
  test_dpsgd(&all);
  test_ad_psgd(&all);
  test_bounded_staleness(&all);
  test_partial_allreduce(&all);
  test_bundles();
  test_gradient_exchange(&all);
  test_freed_early(&all);
}

int main(int argc, char** argv) {
  return run_test(argc, argv, test_all);
}
