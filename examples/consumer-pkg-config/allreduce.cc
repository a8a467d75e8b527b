// The sum of all ranks' numbers, with errors handled by hand:
//   weft run -n 4 -- ./allreduce
#include <weft/weft.h>

#include <cstdio>

int main() {
  auto context = weft::Context::from_environment();
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().to_string().c_str());
    return 1;
  }
  float x = static_cast<float>((*context)->rank() + 1);
  const weft::Status done =
      (*context)->allreduce(weft::in(&x, 1), weft::out(&x, 1), weft::ReduceOp::sum);
  if (!done.ok()) {
    std::fprintf(stderr, "%s\n", done.to_string().c_str());
    return 1;
  }
  std::printf("rank %d: %g\n", (*context)->rank(), static_cast<double>(x));
  return 0;
}
