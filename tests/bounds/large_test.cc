// Tensors of more bytes and elements than 31 bits count: 3 GiB of bytes, on two ranks.
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <new>

#include "tests/window/window_job.h"

namespace weft {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr std::size_t kLarge = 3 * kGiB + 5;

class Large : public OverBoth {
 protected:
  void SetUp() override {
    struct sysinfo machine {};
    ::sysinfo(&machine);
    if (machine.freeram * machine.mem_unit < 12 * kGiB)
      GTEST_SKIP() << "needs 12 GiB of free memory";
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, Large, kBothWays, name_of);

// 3 GiB of this rank's own memory, as programs have it; in large pages, which take a tenth of the time.
class Bytes {
 public:
  explicit Bytes(std::size_t count) : count_(count) {
    void* const mapped =
        ::mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    ::madvise(mapped, count, MADV_HUGEPAGE);
    data_ = static_cast<std::uint8_t*>(mapped);
  }
  ~Bytes() { ::munmap(data_, count_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::uint8_t* data() { return data_; }
  // The ends, and both sides of where 31 and 32 bits end.
  [[nodiscard]] std::vector<std::size_t> places() const {
    return {0, 1, 2 * kGiB - 1, 2 * kGiB, 2 * kGiB + 1, 3 * kGiB, count_ - 1};
  }

 private:
  std::size_t count_;
  std::uint8_t* data_;
};

std::uint8_t value(Rank rank, std::size_t place) {
  return static_cast<std::uint8_t>(10 * (rank + 1) + static_cast<int>(place % 7));
}

// An operation that adds up, in place, and one that moves.
TEST_P(Large, TensorsAreReducedAndSent) {
  Config config = test_config();
  config.deadline_ms = 200'000;  // a loaded machine takes long for so many pages
  const RankBody body = [](Context& context) {
    Bytes x(kLarge);
    for (const std::size_t place : x.places()) x.data()[place] = value(context.rank(), place);
    expect_ok(context.allreduce(in(x.data(), kLarge), out(x.data(), kLarge), ReduceOp::max));
    for (const std::size_t place : x.places()) EXPECT_EQ(x.data()[place], value(1, place)) << place;
    if (context.rank() == 0) {
      for (const std::size_t place : x.places()) x.data()[place] = value(2, place);
      expect_ok(context.send(in(x.data(), kLarge), 1));
    } else {
      expect_ok(context.recv(out(x.data(), kLarge), 0));
      for (const std::size_t place : x.places())
        EXPECT_EQ(x.data()[place], value(2, place)) << place;
    }
  };
  GetParam() == Ways::memory ? run_job(2, body, config) : run_cluster(2, 2, body, config);
}

}  // namespace
}  // namespace weft
