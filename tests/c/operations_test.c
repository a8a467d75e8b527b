// operations_test: what every operation computes. The ranks are those of the launcher
// (`weft run -n 4 -- operations_test`), or with an argument that many threads of this program.
#include "tests/c/operations.h"

#include "tests/c/job.h"

static void test_all(weft_context* context) {
  struct ranks all = {.context = context};
  OK(weft_context_rank(context, &all.rank));
  OK(weft_context_size(context, &all.size));
  test_reductions(&all);
  test_neighbors(&all);
  test_parts(&all);
  test_some_ranks(&all);
  test_splits_and_facts(&all);
  OK(weft_barrier(context));
}

int main(int argc, char** argv) {
  bound_time(120);
  if (argc > 1) {
    run_ranks(atoi(argv[1]), NULL, test_all);
    return 0;
  }
  weft_context* context = NULL;
  OK(weft_context_from_environment(&context));
  test_all(context);
  OK(weft_context_close(context));
  OK(weft_context_free(context));
  return 0;
}
