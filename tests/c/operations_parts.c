// operations_parts: operations in which each rank has a part of its own, equal and of different
// sizes.
#include "tests/c/operations.h"

// Rank r has r + 1 elements, or 2 if parts are equal.
struct parts {
  size_t counts[64];
  size_t first[65];
  int is_equal;
};
static struct parts make_parts(const struct ranks* all, int is_equal) {
  struct parts parts = {.is_equal = is_equal};
  CHECK(all->size <= 64);
  for (int32_t rank = 0; rank < all->size; ++rank) {
    parts.counts[rank] = is_equal ? 2 : (size_t)rank + 1;
    parts.first[rank + 1] = parts.first[rank] + parts.counts[rank];
  }
  return parts;
}

static void check_gathered(const struct ranks* all, const struct parts* parts, const float* y) {
  for (int32_t rank = 0; rank < all->size; ++rank) {
    for (size_t i = 0; i < parts->counts[rank]; ++i)
      CHECK(y[parts->first[rank] + i] == value_of(rank, i));
  }
}

// y holds this rank's part of the values of rank `from`, or of the sum over all ranks if `from`
// is negative.
static void check_own(const struct ranks* all, const struct parts* parts, int32_t from,
                      const float* y) {
  for (size_t i = 0; i < parts->counts[all->rank]; ++i) {
    const size_t at = parts->first[all->rank] + i;
    double expected = from < 0 ? 0 : value_of(from, at);
    for (int32_t rank = 0; from < 0 && rank < all->size; ++rank) expected += value_of(rank, at);
    CHECK(is_near(y[i], expected));
  }
}

static void test_parts_of(const struct ranks* all, const struct parts* parts) {
  weft_context* context = all->context;
  const size_t own = parts->counts[all->rank], sum = parts->first[all->size];
  const size_t* counts = parts->is_equal ? NULL : parts->counts;
  const size_t length = parts->is_equal ? 0 : (size_t)all->size;
  const int32_t root = all->size / 2;
  const int is_root = all->rank == root;
  float x[kMostElements], y[kMostElements];
  CHECK(sum <= kMostElements);
  fill(x, kMostElements, all->rank);

  BOTH_WAYS(y, check_gathered(all, parts, y), weft_allgather, context, x, own, y, sum, WEFT_F32,
            counts, length);
  BOTH_WAYS(y, if (is_root) check_gathered(all, parts, y), weft_gather, context, x, own,
            is_root ? y : NULL, is_root ? sum : 0, WEFT_F32, is_root ? counts : NULL,
            is_root ? length : 0, root);
  BOTH_WAYS(y, check_own(all, parts, root, y), weft_scatter, context, is_root ? x : NULL,
            is_root ? sum : 0, y, own, WEFT_F32, is_root ? counts : NULL, is_root ? length : 0,
            root);
  BOTH_WAYS(y, check_own(all, parts, -1, y), weft_reduce_scatter, context, x, sum, y, own, WEFT_F32,
            WEFT_SUM, counts, length);

  memset(y, 0, sizeof(y));  // in place: this rank's block of y
  fill(y + parts->first[all->rank], own, all->rank);
  OK(weft_allgather(context, y + parts->first[all->rank], own, y, sum, WEFT_F32, counts, length));
  check_gathered(all, parts, y);
}

static void check_alltoall(const struct ranks* all, const float* y) {
  for (int32_t rank = 0; rank < all->size; ++rank) {
    const size_t at = 2 * (size_t)all->rank;  // of this rank's block in the other's x
    CHECK(y[2 * rank] == value_of(rank, at) && y[2 * rank + 1] == value_of(rank, at + 1));
  }
}

// Rank i has sent j + 1 elements to rank j.
static void check_alltoallv(const struct ranks* all, const float* y) {
  const size_t each = (size_t)all->rank + 1;
  const size_t before = (size_t)all->rank * each / 2;  // 1 + 2 + … + rank: what goes to lower ranks
  for (int32_t rank = 0; rank < all->size; ++rank) {
    for (size_t i = 0; i < each; ++i)
      CHECK(y[(size_t)rank * each + i] == value_of(rank, before + i));
  }
}

void test_parts(const struct ranks* all) {
  const struct parts equal = make_parts(all, 1), different = make_parts(all, 0);
  test_parts_of(all, &equal);
  test_parts_of(all, &different);

  const size_t n = (size_t)all->size;
  float x[kMostElements], y[kMostElements];
  fill(x, kMostElements, all->rank);
  BOTH_WAYS(y, check_alltoall(all, y), weft_alltoall, all->context, x, y, 2 * n, WEFT_F32);
  size_t receive_counts[64];
  for (size_t rank = 0; rank < n; ++rank) receive_counts[rank] = (size_t)all->rank + 1;
  BOTH_WAYS(y, check_alltoallv(all, y), weft_alltoallv, all->context, x, different.first[n], y,
            n * ((size_t)all->rank + 1), WEFT_F32, different.counts, receive_counts, n);
}
