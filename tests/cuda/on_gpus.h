// What tests of sums on GPUs share: that there are kernels, values whose sums depend on their order,
// and an operation on GPUs beside the same on the host.
#pragma once

#include <string_view>
#include <vector>

#include "engine/gpu_kernels/gpu_kernels.h"
#include "tests/context/outcomes.h"
#include "tests/cuda/fake_library.h"
#include "verbs/cuda/cuda.h"

namespace weft {

// Skips in a build without nvcc.
class OnGpus : public testing::Test {
 protected:
  void SetUp() override {
    fake.reset();
    const GpuArray<float> any(1, 0);
    const Status found = GpuKernels::of(*gpu_memory(any.data())).status();
    if (found.text().find("no nvcc") != std::string_view::npos) GTEST_SKIP() << found.text();
    ASSERT_TRUE(found.ok()) << found.to_string();
  }
  void TearDown() override { fake.reset(); }

  const FakeDriver& fake = FakeDriver::get();
};

inline std::vector<float> terms_of(Rank rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = 1.0F / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank) * 13) % 101);
  return values;
}

// Runs the request on the host, and then `times` times on these tensors, which may be on GPUs: `run` gets
// the name of the place ("host", "gpu") and the request.
template <typename Run>
void expect_as_on_host(Request request, const std::vector<float>& terms, std::size_t out_count,
                       GpuArray<float>& x, GpuArray<float>& y, int times, Run run) {
  std::vector<float> host_y(out_count, -1);
  request.input = in(terms.data(), terms.size());
  request.output = out(host_y.data(), out_count);
  const Status expected = run("host", request);
  ASSERT_TRUE(expected.ok()) << expected.to_string();
  x.set(terms);
  request.input = in(x.data(), terms.size());
  request.output = out(y.data(), out_count);
  for (int i = 0; i < times; ++i) {
    y.set(std::vector<float>(out_count, -1));
    const Status status = run("gpu", request);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(y.get(), host_y);
    EXPECT_EQ(x.get(), terms);
  }
}

// The same for an operation of the context; this rank's ends are on GPUs of these numbers, or on the
// host (-1).
inline void expect_same(Context& context, const Request& request, std::size_t in_count,
                        std::size_t out_count, int input, int output, int times = 1) {
  GpuArray<float> x(in_count, input), y(out_count, output);
  expect_as_on_host(request, terms_of(context.rank(), in_count), out_count, x, y, times,
                    [&](const char*, const Request& here) { return context.run(here); });
}

}  // namespace weft
