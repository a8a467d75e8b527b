// operations_test: what every operation computes. The ranks are those of the launcher
// (`weft run -n 4 -- operations_test`), or with an argument that many threads of this program.
#include "tests/c/operations.h"

#include "tests/c/job.h"

static void test_all(weft_context* context) {
  const struct ranks all = ranks_of(context);
  test_reductions(&all);
  test_neighbors(&all);
  test_parts(&all);
  test_some_ranks(&all);
  test_splits_and_facts(&all);
  OK(weft_barrier(context));
}

int main(int argc, char** argv) {
  return run_test(argc, argv, test_all);
}
