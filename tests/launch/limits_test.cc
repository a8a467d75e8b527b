// Jobs where the system's limits are reached: descriptors, locked memory, full file systems. A job
// either runs and is right, or each rank that cannot go on says which limit it met.
#include <filesystem>

#include "tests/base/sanitized.h"
#include "tests/launch/shell.h"

namespace weft {
namespace {

bool mentions(const Ran& ran, const std::string& word) {
  return std::ranges::any_of(
      ran.lines, [&word](const std::string& line) { return line.find(word) != std::string::npos; });
}

std::string all_of(const Ran& ran) {
  std::string all;
  for (const std::string& line : ran.lines) all += line;
  return all;
}

// What could do with fewer descriptors says so: a rank that cannot watch the others, for example.
Ran without_warnings(Ran ran) {
  std::erase_if(ran.lines, [](const std::string& line) {
    return line.find("warning: ") != std::string::npos &&
           line.find("RLIMIT_NOFILE") != std::string::npos;
  });
  return ran;
}

struct Way {
  const char* name;
  const char* settings;
};

class Descriptors : public testing::TestWithParam<Way> {};

// With fewer and fewer: nothing hangs until its deadline, and the limit is named.
TEST_P(Descriptors, TooFewAreAnErrorThatNamesTheLimit) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer has descriptors of its own";
  bool was_short = false;
  for (const int most : {8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 40, 48, 64, 96, 256}) {
    SCOPED_TRACE(most);
    const Ran ran = shell(std::string(kClean) + GetParam().settings +
                          WEFT " run --no-tag -n 4 -- sh -c 'ulimit -n " + std::to_string(most) +
                          "; exec " RANK "'");
    if (ran.status == 0) {
      expect_all_right(without_warnings(ran));
      continue;
    }
    was_short = true;
    EXPECT_NE(most, 256) << all_of(ran);
    EXPECT_TRUE(mentions(ran, "RLIMIT_NOFILE") || mentions(ran, "ulimit -n")) << all_of(ran);
  }
  EXPECT_TRUE(was_short);
}

const Way kWays[] = {
    {"memory", "WEFT_TRANSPORTS=shm "},
#ifdef HAS_UCX
    {"network", "WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo "},
#endif
};
INSTANTIATE_TEST_SUITE_P(All, Descriptors, testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

// What starts the ranks has descriptors for each of them.
TEST(Descriptors, OfTheLauncherAreNamed) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer has descriptors of its own";
  const Ran ran =
      shell(std::string(kClean) + "sh -c 'ulimit -n 24; exec " WEFT " run -n 32 -- true'");
  EXPECT_NE(ran.status, 0);
  EXPECT_TRUE(mentions(ran, "ulimit -n allows 24")) << all_of(ran);
}

// As users have it who never heard of RDMA, and are not root.
TEST(LockedMemory, OfSixtyFourKiBIsEnoughWithoutRdma) {
  const std::string bound =
      "prlimit --memlock=65536 setpriv --inh-caps=-ipc_lock --bounding-set=-ipc_lock ";
  if (shell(bound + "true").status != 0) GTEST_SKIP() << "not permitted: " << bound;
  for (const Way& way : kWays) {
    expect_all_right(
        shell(std::string(kClean) + way.settings + bound + WEFT " run --no-tag -n 4 -- " RANK));
  }
}

// A file system of so many KiB, seen by the command alone. Its path is $disk.
class Disk : public testing::Test {
 protected:
  void SetUp() override {
    if (on_disk(4, "true").status != 0) GTEST_SKIP() << "not permitted: mount -t tmpfs";
  }
  ~Disk() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] Ran on_disk(int kib, const std::string& command) const {
    return shell("unshare --mount sh -c 'mount -t tmpfs -o size=" + std::to_string(kib) +
                 "k none " + folder_ + " && disk=" + folder_ + " && " + command + "'");
  }

 private:
  std::string folder_ = [] {
    std::string path = (std::filesystem::temp_directory_path() / "weft-disk-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    return path;
  }();
};

// The job's results do not depend on what it tells of itself.
TEST_F(Disk, FullUnderTheTimelineAndTheMetricsIsInTheLog) {
  const Ran ran =
      on_disk(4, "head -c 4096 /dev/zero >$disk/full; " + std::string(kClean) +
                     "WEFT_TRACE=$disk/t-{rank}.json WEFT_METRICS=$disk/m-{rank} " WEFT
                     " run --no-tag -n 4 -- " RANK "; echo status $?; echo left: $(ls -A $disk)");
  EXPECT_TRUE(mentions(ran, "status 0")) << all_of(ran);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string own = std::to_string(rank);
    EXPECT_TRUE(mentions(ran, "rank " + own + " of 4: all right")) << all_of(ran);
    for (const std::string& name : {"t-" + own + ".json", "m-" + own}) {
      EXPECT_TRUE(std::ranges::any_of(ran.lines,
                                      [&name](const std::string& line) {
                                        return line.find(name + ": No space left on device") !=
                                               std::string::npos;
                                      }))
          << name << " in " << all_of(ran);
    }
  }
  EXPECT_TRUE(mentions(ran, "left: full\n")) << "half a file stayed: " << all_of(ran);
}

// A rank without shared memory says where there is none, and the others whom they miss.
TEST_F(Disk, FullUnderTheSharedMemoryIsAnErrorThatNamesTheFolder) {
  for (const int mib : {1, 3, 5}) {
    SCOPED_TRACE(mib);
    const Ran ran = on_disk(
        1024 * mib, std::string(kClean) + "WEFT_SHM_DIR=$disk " WEFT " run --no-tag -n 4 -- " RANK);
    EXPECT_NE(ran.status, 0);
    EXPECT_TRUE(mentions(ran, "weft-disk-")) << all_of(ran);
  }
  const Ran enough = on_disk(
      256 * 1024, std::string(kClean) + "WEFT_SHM_DIR=$disk " WEFT " run --no-tag -n 4 -- " RANK);
  expect_all_right(enough);
}

}  // namespace
}  // namespace weft
