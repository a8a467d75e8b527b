// Ranks on a ring average a number with their neighbors until all hold the mean:
//   weft run -n 4 -- ./ring
#include <stdio.h>
#include <weft/weft.h>

static weft_code average(weft_context* context) {
  int32_t rank = 0, size = 0;
  weft_graph* ring = NULL;
  weft_code code = weft_context_rank(context, &rank);
  if (code == WEFT_OK) code = weft_context_size(context, &size);
  if (code == WEFT_OK) code = weft_graph_make("ring", size, &ring);
  if (code == WEFT_OK) code = weft_context_set_graph(context, ring, 0);
  weft_graph_free(ring);

  double x = rank;
  for (int step = 0; step < 100 && code == WEFT_OK; ++step) {
    code = weft_neighbor_allreduce(context, &x, &x, 1, WEFT_F64, NULL);
  }
  if (code == WEFT_OK) printf("rank %d of %d: %.6f\n", (int)rank, (int)size, x);
  return code;
}

int main(void) {
  weft_context* context = NULL;
  weft_code code = weft_context_from_environment(&context);
  if (code == WEFT_OK) code = average(context);
  if (code != WEFT_OK) fprintf(stderr, "%s\n", weft_last_error());
  weft_context_free(context);
  return code == WEFT_OK ? 0 : 1;
}
