// UCX aborts the process where it cannot open a descriptor. Whatever is left of them, opening an
// interface and connecting end with success or an error. Each case in a process of its own.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>

#include "tests/base/sanitized.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

constexpr int kMostLeft = 32;

// Leaves this process so many descriptors more.
void leave(int descriptors) {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  const auto open = std::distance(begin(files), end(files)) - 1;  // without the iterator's own
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(open + descriptors);
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool is_told(const Status& status) {
  if (status.ok()) return true;
  const bool told = status.code() == Code::exhausted &&
                    status.text().find("RLIMIT_NOFILE") != std::string_view::npos;
  if (!told) fprintf(stderr, "%s\n", status.to_string().c_str());
  return told;
}

Result<std::unique_ptr<Interface>> open(Rank rank) {
  UcxOptions ucx;
  ucx.device = "lo";
  return open_ucx(rank, {}, ucx, [](Rank peer) -> Result<std::string> {
    return Status(Code::unavailable, "a stranger", peer);
  });
}

void open_with(int descriptors) {
  leave(descriptors);
  _exit(is_told(open(0).status()) ? 0 : 1);
}

// Both ways, and then what the kernel has accepted meanwhile.
void connect_with(int descriptors) {
  std::array<std::unique_ptr<Interface>, 2> ranks{open(0).value(), open(1).value()};
  leave(descriptors);
  bool told = true;
  for (const std::size_t self : {0U, 1U}) {
    const std::size_t peer = 1 - self;
    told &= is_told(ranks[self]->connect(static_cast<Rank>(peer), ranks[peer]->address()).status());
    for (int turn = 0; turn < 1000; ++turn) ranks[turn % 2]->progress();
  }
  _exit(told ? 0 : 1);
}

TEST(UcxDescriptors, RunningOutWhileOpeningIsAnError) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer needs descriptors for its own checks";
  for (int left = 0; left < kMostLeft; ++left) {
    EXPECT_EXIT(open_with(left), testing::ExitedWithCode(0), "") << left << " descriptors left";
  }
}

TEST(UcxDescriptors, RunningOutWhileConnectingIsAnError) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer needs descriptors for its own checks";
  for (int left = 0; left < kMostLeft; ++left) {
    EXPECT_EXIT(connect_with(left), testing::ExitedWithCode(0), "") << left << " descriptors left";
  }
}

}  // namespace
}  // namespace weft
