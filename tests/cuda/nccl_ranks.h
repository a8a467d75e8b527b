// What tests of NCCL share: ranks that are threads, with a tensor each on one of two GPUs, on the fakes
// of both libraries.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "tests/context/job.h"
#include "tests/cuda/fake_library.h"
#include "tests/cuda/nccl_fake.h"

namespace weft {

inline constexpr std::size_t kCount = 300'000;  // of floats: more than a MiB

class Nccl : public testing::Test {
 protected:
  Nccl() {
    static void* const library = dlopen(WEFT_NCCL_FAKE, RTLD_NOW | RTLD_GLOBAL);
    EXPECT_NE(library, nullptr) << dlerror();
    fail_ = reinterpret_cast<decltype(&nccl_fake_fail)>(dlsym(library, "nccl_fake_fail"));
    launch_slowly_ = reinterpret_cast<decltype(&nccl_fake_launch_slowly)>(
        dlsym(library, "nccl_fake_launch_slowly"));
    fake.reset();
  }
  ~Nccl() override {
    fail_("", 0);
    launch_slowly_(0);
    fake.reset();
  }

  static Config config(NcclUse use = NcclUse::on) {
    Config made = test_config();
    made.nccl = use;
    return made;
  }

  const FakeDriver& fake = FakeDriver::get();
  decltype(&nccl_fake_fail) fail_ = nullptr;
  decltype(&nccl_fake_launch_slowly) launch_slowly_ = nullptr;
};

inline std::vector<float> values_of(Rank rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = static_cast<float>((i + static_cast<std::size_t>(rank) * 5) % 64);
  return values;
}

// One tensor on the GPU of the rank's number.
struct OnGpu {
  explicit OnGpu(Rank rank) : x(kCount, rank), y(kCount, rank) { x.set(values_of(rank)); }
  [[nodiscard]] Request request(Collective collective, ReduceOp op = ReduceOp::sum) const {
    return {.collective = collective,
            .input = in(x.data(), kCount),
            .output = out(y.data(), kCount),
            .op = op};
  }
  GpuArray<float> x, y;
};

inline std::vector<float> sums_of(int ranks) {
  std::vector<float> sums(kCount);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const std::vector<float> each = values_of(rank);
    for (std::size_t i = 0; i < kCount; ++i) sums[i] += each[i];
  }
  return sums;
}

inline bool says(Context& context, const std::string& text) {
  return context.explain().find(text) != std::string::npos;
}

}  // namespace weft
