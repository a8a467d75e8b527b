// operations_all: operations of all ranks that combine, copy or wait; split; what a context says.
#include "tests/c/operations.h"

// What element i becomes when the values of all ranks are reduced.
static double reduced(const struct ranks* all, weft_reduce_op op, size_t i) {
  double result = value_of(0, i);
  for (int32_t rank = 1; rank < all->size; ++rank) {
    const double value = value_of(rank, i);
    if (op == WEFT_SUM || op == WEFT_AVERAGE) result += value;
    if (op == WEFT_MIN && value < result) result = value;
    if (op == WEFT_MAX && value > result) result = value;
    if (op == WEFT_PRODUCT) result *= value;
  }
  return op == WEFT_AVERAGE ? result / all->size : result;
}

static void check_reduced(const struct ranks* all, weft_reduce_op op, const float* y) {
  for (size_t i = 0; i < kCount; ++i) CHECK(is_near(y[i] / reduced(all, op, i), 1));
}

static void test_bits(const struct ranks* all) {
  const uint32_t x[2] = {UINT32_C(1) << all->rank, 0xF0 | (uint32_t)all->rank};
  uint32_t y[2];
  const uint32_t every = (UINT32_C(1) << all->size) - 1;
  BOTH_WAYS(y, CHECK(y[0] == every), weft_allreduce, all->context, x, y, 2, WEFT_U32, WEFT_BIT_OR);
  BOTH_WAYS(y, CHECK(y[0] == every), weft_allreduce, all->context, x, y, 2, WEFT_U32, WEFT_BIT_XOR);
  BOTH_WAYS(y, CHECK(y[0] == (all->size == 1) && y[1] >= 0xF0), weft_allreduce, all->context, x, y,
            2, WEFT_U32, WEFT_BIT_AND);
}

static void test_types(const struct ranks* all) {
  static const struct {
    weft_data_type type;
    uint16_t one;  // 1.0, in the low byte alone of FP8
  } kFloats[] = {{WEFT_F16, 0x3C00}, {WEFT_BF16, 0x3F80}, {WEFT_E4M3, 0x38}, {WEFT_E5M2, 0x3C}};
  for (size_t i = 0; i < sizeof kFloats / sizeof *kFloats; ++i) {
    uint16_t y = 0;
    OK(weft_allreduce(all->context, &kFloats[i].one, &y, 1, kFloats[i].type, WEFT_AVERAGE));
    CHECK(y == kFloats[i].one);
  }
  const int64_t x64 = INT64_C(-5000000000);
  int64_t y64 = 0;
  OK(weft_allreduce(all->context, &x64, &y64, 1, WEFT_I64, WEFT_SUM));
  CHECK(y64 == all->size * x64);
  const int8_t x8 = (int8_t)-all->rank;
  int8_t y8 = 1;
  OK(weft_allreduce(all->context, &x8, &y8, 1, WEFT_I8, WEFT_MIN));
  CHECK(y8 == 1 - all->size);
}

static weft_request allreduce_of(const float* x, float* y, weft_reduce_op op) {
  const weft_request request = {.size = sizeof(request),
                                .operation = WEFT_ALLREDUCE,
                                .type = WEFT_F32,
                                .x = x,
                                .x_count = kCount,
                                .y = y,
                                .y_count = kCount,
                                .op = op};
  return request;
}

static void test_algorithms(const struct ranks* all) {
  const weft_algorithm algorithms[] = {WEFT_AUTOMATIC, WEFT_DIRECT, WEFT_SPLIT, WEFT_RING,
                                       WEFT_HALVING_DOUBLING};
  float x[kCount];
  fill(x, kCount, all->rank);
  for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); ++i) {
    float y[kCount] = {0};
    weft_request request = allreduce_of(x, y, WEFT_MAX);
    request.algorithm = algorithms[i];
    OK(weft_run(all->context, &request));
    check_reduced(all, WEFT_MAX, y);
    memset(y, 0, sizeof(y));
    weft_handle* handle = NULL;
    OK(weft_start(all->context, &request, &handle));
    OK(finish(handle));
    check_reduced(all, WEFT_MAX, y);
  }
}

// With fixed bits, what is exact is as with others; and an algorithm with another order is refused.
static void test_fixed_bits(const struct ranks* all) {
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  weft_request request = allreduce_of(x, y, WEFT_SUM);
  request.bits = WEFT_BITS_FIXED;
  OK(weft_run(all->context, &request));
  check_reduced(all, WEFT_SUM, y);
  request.bits = WEFT_BITS_FIXED + 1;
  FAILS(weft_run(all->context, &request), WEFT_INVALID_ARGUMENT, "bits");
  request.bits = WEFT_BITS_FIXED;
  request.algorithm = WEFT_RING;
  FAILS(weft_run(all->context, &request), WEFT_INVALID_ARGUMENT, "rank order");
}

static void test_needs_all(const struct ranks* all) {
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  weft_request request = allreduce_of(x, y, WEFT_SUM);
  request.needs_all = 1;
  OK(weft_run(all->context, &request));
  check_reduced(all, WEFT_SUM, y);
  request.needs_all = 2;
  FAILS(weft_run(all->context, &request), WEFT_INVALID_ARGUMENT, "needs_all");
}

// The ranks' numbers are exact in 16 bits, and few enough for buckets of their own.
static void test_compression(const struct ranks* all) {
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  for (weft_compression each = WEFT_COMPRESSION_F16; each <= WEFT_COMPRESSION_SKETCH; ++each) {
    memset(y, 0, sizeof(y));
    weft_request request = allreduce_of(x, y, WEFT_SUM);
    request.compression = each;
    OK(weft_run(all->context, &request));
    check_reduced(all, WEFT_SUM, y);
  }
  for (weft_compression each = WEFT_COMPRESSION_E4M3; each <= WEFT_COMPRESSION_E5M2; ++each) {
    for (int i = 0; i < kCount; ++i) x[i] = 1.5f;
    weft_request request = allreduce_of(x, y, WEFT_AVERAGE);
    request.compression = each;
    OK(weft_run(all->context, &request));
    CHECK(y[0] == 1.5f && y[kCount - 1] == 1.5f);
  }
}

// Element (i, k) is the product of i and k: a matrix of rank 1.
static void test_low_rank(const struct ranks* all) {
  enum { kRows = 40, kColumns = 50 };
  float x[kRows * kColumns], y[kRows * kColumns];
  for (int i = 0; i < kRows * kColumns; ++i) x[i] = (float)((i / kColumns) * (i % kColumns));
  weft_request request = allreduce_of(x, y, WEFT_AVERAGE);
  request.x_count = request.y_count = kRows * kColumns;
  request.compression = WEFT_COMPRESSION_LOW_RANK;
  INVALID(weft_run(all->context, &request), "low_rank takes a matrix");
  const size_t shape[] = {kRows, kColumns};
  request.shape = shape;
  request.dimensions = 2;
  request.low_rank = -1;
  INVALID(weft_run(all->context, &request), "low_rank is below 0");
  request.low_rank = 1;
  OK(weft_run(all->context, &request));
  const double error = y[777] - x[777];
  CHECK(error < 4 && error > -4 && y[777] > 300);
}

static void test_feedback(const struct ranks* all) {
  float x[kCount], y[kCount], residual[kCount];
  for (int i = 0; i < kCount; ++i) x[i] = 1.0f / (float)(i + 3);
  weft_feedback* feedback = NULL;
  OK(weft_feedback_create(&feedback));
  size_t count = 1;
  OK(weft_feedback_residual(feedback, residual, kCount, &count));
  CHECK(count == 0);
  weft_request request = allreduce_of(x, y, WEFT_SUM);
  request.feedback = feedback;
  INVALID(weft_run(all->context, &request), "error feedback is for compressed tensors");
  request.compression = WEFT_COMPRESSION_BF16;
  OK(weft_run(all->context, &request));
  OK(weft_feedback_residual(feedback, residual, kCount, &count));
  CHECK(count == kCount && residual[0] != 0);
  request.x_count = request.y_count = 1;
  INVALID(weft_run(all->context, &request), "clear() begins anew");
  OK(weft_feedback_clear(feedback));
  OK(weft_run(all->context, &request));
  OK(weft_feedback_free(feedback));
  INVALID(weft_run(all->context, &request), "feedback is no weft_feedback");
}

void test_reductions(const struct ranks* all) {
  weft_context* context = all->context;
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  for (weft_reduce_op op = WEFT_SUM; op <= WEFT_PRODUCT; ++op)
    BOTH_WAYS(y, check_reduced(all, op, y), weft_allreduce, context, x, y, kCount, WEFT_F32, op);
  test_bits(all);
  test_types(all);
  test_algorithms(all);
  test_fixed_bits(all);
  test_needs_all(all);
  test_compression(all);
  test_low_rank(all);
  test_feedback(all);

  const int32_t root = all->size - 1;
  const int is_root = all->rank == root;
  BOTH_WAYS(y, if (is_root) check_reduced(all, WEFT_SUM, y), weft_reduce, context, x,
            is_root ? y : NULL, kCount, WEFT_F32, WEFT_SUM, root);
  BOTH_WAYS(y, CHECK(y[1] == value_of(root, 1) && y[4] == value_of(root, 4)), weft_broadcast,
            context, is_root ? x : NULL, y, kCount, WEFT_F32, root);
  BOTH_WAYS(y, CHECK(x[0] == value_of(all->rank, 0)), weft_barrier, context);

  float in_place[kCount];
  fill(in_place, kCount, all->rank);
  OK(weft_allreduce(context, in_place, in_place, kCount, WEFT_F32, WEFT_AVERAGE));
  check_reduced(all, WEFT_AVERAGE, in_place);
}

static void test_local(const struct ranks* all) {
  int32_t machine = -1, other = -1, local_rank = -1, local_size = -1, machines = -1;
  OK(weft_context_machine_rank(all->context, &machine));
  double sum = 0;
  int32_t here = 0, before = 0;
  for (int32_t rank = 0; rank < all->size; ++rank) {
    OK(weft_context_machine_of(all->context, rank, &other));
    if (other != machine) continue;
    if (rank < all->rank) ++before;
    ++here;
    sum += value_of(rank, 2);
  }
  weft_placement place = {.size = sizeof(place)};
  OK(weft_context_placement(all->context, &place));
  OK(weft_context_local_rank(all->context, &local_rank));
  OK(weft_context_local_size(all->context, &local_size));
  OK(weft_context_machine_size(all->context, &machines));
  CHECK(place.local_rank == before && place.local_size == here && place.machine_rank == machine);
  CHECK(local_rank == before && local_size == here && machines == place.machine_size);
  CHECK(place.rails >= 0 && (place.machine_size > 1 || place.is_homogeneous == 1));
  float x[kCount], y[kCount];
  fill(x, kCount, all->rank);
  BOTH_WAYS(y, CHECK(is_near(y[2], sum)), weft_local_allreduce, all->context, x, y, kCount,
            WEFT_F32, WEFT_SUM);
}

void test_splits_and_facts(const struct ranks* all) {
  test_local(all);
  // Odd and even ranks apart, counted from the last one.
  weft_context* part = NULL;
  OK(weft_context_split(all->context, all->rank % 2, -all->rank, &part));
  int32_t rank = -1, size = -1;
  OK(weft_context_rank(part, &rank));
  OK(weft_context_size(part, &size));
  CHECK(size == (all->size + 1 - all->rank % 2) / 2 && rank == size - 1 - all->rank / 2);
  const int32_t one = 1;
  int32_t ranks = 0;
  OK(weft_allreduce(part, &one, &ranks, 1, WEFT_I32, WEFT_SUM));
  CHECK(ranks == size);
  OK(weft_context_free(part));

  OK(weft_context_split(all->context, all->rank == 0 ? WEFT_NO_COLOR : 0, 0, &part));
  CHECK((part == NULL) == (all->rank == 0));
  OK(weft_context_free(part));

  // Nobody is gone: those that are left are all.
  int32_t members[64];
  size_t count = 0;
  OK(weft_context_members(all->context, members, 64, &count));
  CHECK(count == (size_t)all->size && members[count - 1] == all->size - 1);
  OK(weft_context_shrink(all->context, &part));
  OK(weft_context_size(part, &size));
  CHECK(size == all->size);
  OK(weft_barrier(part));
  OK(weft_context_free(part));

  weft_usage usage = {.size = sizeof(usage)};
  OK(weft_context_usage(all->context, &usage));
  CHECK(usage.operations > 20 && usage.plans_cached > 0);
  const char* transports = getenv("WEFT_TRANSPORTS");
  const int over_network = transports != NULL && strcmp(transports, "ucx") == 0 && all->size > 1;
  CHECK(!over_network || usage.network_bytes > 0);
  char* text = NULL;
  OK(weft_context_explain(all->context, &text));
  CHECK(strlen(text) > 10);
  weft_string_free(text);
  OK(weft_flight(&text));
  CHECK(strstr(text, "{\"context\":\"job\"") != NULL && strstr(text, "{\"end\":true}") != NULL);
  weft_string_free(text);
  weft_config* config = NULL;
  OK(weft_context_config(all->context, &config));
  OK(weft_config_get(config, "WEFT_SIZE", &text));
  CHECK(atoi(text) == all->size);
  weft_string_free(text);
  OK(weft_config_free(config));
}
