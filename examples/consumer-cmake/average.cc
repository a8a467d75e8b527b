// Every rank averages a number with its neighbors until all hold the mean:
//   weft run -n 4 -- build/average
#include <weft/macros.h>
#include <weft/weft.h>

#include <cstdio>

namespace {

weft::Status average() {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const auto graph, weft::exponential_graph(context->size()));
  WEFT_RETURN_IF_ERROR(context->set_graph(graph));

  WEFT_ASSIGN(const auto memory, weft::Memory::allocate(sizeof(double)));
  double* x = memory.as<double>();
  *x = context->rank();
  for (int step = 0; step < 20; ++step) {
    WEFT_RETURN_IF_ERROR(context->neighbor_allreduce(weft::in(x, 1), weft::out(x, 1)));
  }
  std::printf("rank %d of %d: %.6f\n", context->rank(), context->size(), *x);
  return {};
}

}  // namespace

int main() {
  const weft::Status done = average();
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
