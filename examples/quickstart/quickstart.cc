// quickstart: each rank averages a number with its neighbors, again and again, until all ranks hold
// the mean.
//
//   weft run -n 4 -- quickstart
#include <weft/macros.h>
#include <weft/weft.h>

#include <cstdio>

weft::Status average() {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const auto graph, weft::exponential_graph(context->size()));
  WEFT_RETURN_IF_ERROR(context->set_graph(graph));

  WEFT_ASSIGN(void* memory, weft::allocate(sizeof(double)));  // the other ranks read it in place
  auto* x = static_cast<double*>(memory);
  *x = context->rank();
  for (int step = 0; step < 20; ++step) {
    WEFT_RETURN_IF_ERROR(context->neighbor_allreduce(weft::in(x, 1), weft::out(x, 1)));
  }
  std::printf("rank %d of %d: %.6f\n", context->rank(), context->size(), *x);
  weft::deallocate(memory);
  return {};
}

int main() {
  const weft::Status done = average();
  if (!done.ok()) std::fprintf(stderr, "quickstart: %s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
