// The registration cache over a device that only counts: what is a hit, what is kept, what goes.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "tests/memory/fake_device.h"
#include "verbs/memory/memory.h"

namespace weft {
namespace {

constexpr std::uintptr_t kBase = 0x10000000;  // of memory that does not exist
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMiB = std::size_t{1} << 20;

std::uintptr_t page(std::size_t number) {
  return kBase + number * kPage;
}

void change(std::size_t first, std::size_t pages) {
  announce_change(reinterpret_cast<const void*>(page(first)), pages * kPage);  // NOLINT
}

class RegistrationsTest : public testing::Test {
 protected:
  Registrations& open(const RegistrationOptions& options = {}, const Status& coherence = {}) {
    registrations_ = std::make_unique<Registrations>(device_, options, coherence);
    return *registrations_;
  }
  // Finds the pages and lets them go.
  std::uint32_t touch(std::size_t first, std::size_t pages) {
    return found(*registrations_, page(first), pages * kPage).lkey();
  }
  Status refused(std::size_t first, std::size_t pages) {
    return registrations_
        ->find(reinterpret_cast<const void*>(page(first)), pages * kPage)  // NOLINT
        .status();
  }
  std::size_t adds() { return device_.added.size(); }

  FakeDevice device_;
  std::unique_ptr<Registrations> registrations_;
};

TEST_F(RegistrationsTest, AMissRegistersWholePagesAndTheNextRequestHits) {
  Registrations& all = open();
  const auto use = found(all, kBase + 100, 10);
  EXPECT_EQ(device_.added.back(), (FakeDevice::Range{kBase, kPage}));
  EXPECT_EQ(use.lkey() + 1000, use.rkey());
  EXPECT_EQ(found(all, kBase, kPage).lkey(), use.lkey());
  EXPECT_EQ(found(all, kBase + kPage - 1, 1).lkey(), use.lkey());
  EXPECT_EQ(adds(), 1u);
  (void)found(all, kBase + kPage - 1, 2);
  EXPECT_EQ(device_.added.back(), (FakeDevice::Range{kBase, 2 * kPage}));
}

TEST_F(RegistrationsTest, PiecesAreFoundInTheRegionThatWasNamedFirst) {
  open();
  const std::uint32_t lkey = touch(0, 100);
  const std::uint32_t other = touch(200, 1);
  for (std::size_t first = 0; first < 100; ++first) {
    EXPECT_EQ(touch(first, 100 - first), lkey);
    EXPECT_EQ(touch(200, 1), other);
  }
  EXPECT_EQ(adds(), 2u);
}

TEST_F(RegistrationsTest, WhatOverlapsOrAdjoinsOthersIsRegisteredForItself) {
  open();
  const std::uint32_t left = touch(0, 4);
  const std::uint32_t right = touch(4, 4);
  const std::uint32_t both = touch(2, 4);
  EXPECT_EQ(device_.added.back(), (FakeDevice::Range{page(2), 4 * kPage}));
  EXPECT_EQ(touch(0, 4), left);
  EXPECT_EQ(touch(4, 4), right);
  EXPECT_EQ(touch(3, 2), both);
  EXPECT_EQ(adds(), 3u);
}

TEST_F(RegistrationsTest, WhatANewOneCoversGoesAndInUseWithItsLastUse) {
  Registrations& all = open();
  (void)touch(0, 2);
  auto use = std::make_unique<Registrations::Use>(found(all, page(4), 2 * kPage));
  const std::uint32_t whole = touch(0, 8);
  EXPECT_EQ(all.counts().kept, 1u);
  EXPECT_EQ(device_.live().size(), 2u) << "the one in use and the new one";
  EXPECT_EQ(touch(4, 2), whole);
  use.reset();
  EXPECT_EQ(device_.live().size(), 1u);
  EXPECT_EQ(all.counts().bytes, 8 * kPage);
}

TEST_F(RegistrationsTest, TheLeastRecentlyUsedIdleOnesMakeRoomBelowTheLimit) {
  Registrations& all = open({.limit_bytes = 4 * kPage});
  const auto held = found(all, page(0), kPage);
  for (const std::size_t first : {10u, 20u, 30u}) (void)touch(first, 1);
  (void)touch(10, 1);
  (void)touch(40, 1);  // 20 goes
  EXPECT_EQ(adds(), 5u);
  for (const std::size_t first : {30u, 10u, 40u, 0u}) (void)touch(first, 1);
  EXPECT_EQ(adds(), 5u) << "they had stayed";
  (void)touch(50, 2);  // 30 and 10 go
  (void)touch(40, 1);
  EXPECT_EQ(adds(), 6u);
  (void)touch(10, 1);
  EXPECT_EQ(adds(), 7u);
  EXPECT_EQ(all.counts().evicted, 4u);
  EXPECT_LE(device_.bytes(), 4 * kPage);
}

TEST_F(RegistrationsTest, WhatTheLimitCannotHoldIsRefusedAndCostsNothing) {
  Registrations& all = open({.limit_bytes = 4 * kPage});
  (void)touch(10, 2);
  const Status status = refused(0, 5);
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_NE(status.text().find("20 KiB"), std::string_view::npos) << status.to_string();
  EXPECT_NE(status.text().find("limit of 16 KiB"), std::string_view::npos) << status.to_string();
  EXPECT_EQ(all.counts().kept, 1u) << "no eviction could have helped";
  const auto held = found(all, page(10), 2 * kPage);
  EXPECT_EQ(refused(0, 3).code(), Code::exhausted);
  EXPECT_EQ(touch(10, 2), held.lkey());
}

TEST_F(RegistrationsTest, WhenTheDeviceIsFullIdleOnesAreEvictedAndItIsAskedAgain) {
  Registrations& all = open();
  device_.limit = 4 * kPage;
  for (const std::size_t first : {0u, 10u, 20u, 30u}) (void)touch(first, 1);
  const auto held = found(all, page(10), kPage);
  (void)touch(40, 2);
  EXPECT_EQ(all.counts().evicted, 2u);
  EXPECT_EQ(touch(30, 1), 4u) << "0 and 20 were older";
}

TEST_F(RegistrationsTest, IdleOnesThatTheNewOneCoversGoBeforeOthersDo) {
  Registrations& all = open();
  device_.limit = 5 * kPage;
  const std::uint32_t oldest = touch(0, 1);
  (void)touch(10, 2);
  (void)touch(10, 4);
  EXPECT_EQ(touch(0, 1), oldest);
  EXPECT_EQ(all.counts().evicted, 0u);
}

TEST_F(RegistrationsTest, WhenNothingIdleIsLeftTheErrorSaysWhatToSet) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = std::min<rlim_t>(before.rlim_max, 192 << 10);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &small), 0);
  Registrations& all = open();
  device_.limit = 4 * kPage;
  const auto held = found(all, page(0), 3 * kPage);
  const Status status = refused(10, 2);
  EXPECT_EQ(status.code(), Code::exhausted);
  for (const std::string text :
       {"registering 8 KiB", "ibv_reg_mr: no memory", "12 KiB are registered",
        "RLIMIT_MEMLOCK is 192 KiB", "ulimit -l", "LimitMEMLOCK"}) {
    EXPECT_NE(status.text().find(text), std::string_view::npos) << text << ": " << status.text();
  }
  EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST_F(RegistrationsTest, ARefusalLeavesWhatIsInUseWhereItIsFound) {
  Registrations& all = open();
  device_.limit = 4 * kPage;
  const auto held = found(all, page(1), 2 * kPage);
  EXPECT_EQ(refused(0, 4).code(), Code::exhausted);
  EXPECT_EQ(touch(1, 2), held.lkey());
}

TEST_F(RegistrationsTest, OtherErrorsOfTheDevicePassAndNothingIsEvictedForThem) {
  Registrations& all = open();
  (void)touch(0, 1);
  device_.failure = Status(Code::invalid_argument, "not memory");
  EXPECT_EQ(refused(1, 1).text(), "not memory");
  device_.failure = {};
  EXPECT_EQ(all.counts().kept, 1u);
  (void)touch(1, 1);
  EXPECT_EQ(all.counts().kept, 2u);
}

TEST_F(RegistrationsTest, NoMemoryIsNoRequest) {
  open();
  (void)touch(0, 1);
  EXPECT_EQ(refused(0, 0).code(), Code::invalid_argument);
  for (const std::size_t bytes :
       {~std::size_t{0}, ~std::size_t{0} - kBase, std::size_t{0} - kBase}) {
    EXPECT_EQ(registrations_->find(reinterpret_cast<const void*>(kBase), bytes).status().code(),
              Code::invalid_argument);
  }
  EXPECT_EQ(adds(), 1u);
}

TEST_F(RegistrationsTest, AChangeDropsWhatItTouchesAndNothingElse) {
  Registrations& all = open();
  const std::uint32_t before = touch(0, 4);
  const std::uint32_t touched = touch(4, 4);
  const std::uint32_t overlapping = touch(6, 4);
  const std::uint32_t after = touch(10, 4);
  change(7, 3);
  EXPECT_EQ(touch(0, 4), before);
  EXPECT_EQ(touch(10, 4), after);
  EXPECT_EQ(device_.live().size(), 2u);
  EXPECT_NE(touch(4, 4), touched);
  EXPECT_NE(touch(6, 4), overlapping);
  EXPECT_EQ(all.counts().changed, 2u);
}

TEST_F(RegistrationsTest, TheLastHitIsForgottenToo) {
  open();
  const std::uint32_t first = touch(0, 4);
  EXPECT_EQ(touch(0, 4), first);
  change(3, 1);
  EXPECT_NE(touch(0, 1), first) << "one page of it is enough";
}

TEST_F(RegistrationsTest, WhatIsInUseOutlivesAChangeButIsNotFoundAgain) {
  Registrations& all = open();
  auto use = std::make_unique<Registrations::Use>(found(all, page(0), 4 * kPage));
  const std::uint32_t old = use->lkey();
  change(0, 4);
  const std::uint32_t made = touch(0, 4);
  EXPECT_NE(made, old);
  EXPECT_TRUE(device_.live().contains(old));
  use.reset();
  EXPECT_FALSE(device_.live().contains(old));
  EXPECT_EQ(touch(0, 4), made);
}

TEST_F(RegistrationsTest, WithoutCoherenceARegistrationLastsAsLongAsItsUse) {
  Registrations& all = open({}, Status(Code::unavailable, "no hooks"));
  EXPECT_FALSE(all.is_coherent());
  EXPECT_EQ(all.coherence().text(), "no hooks");
  {
    const auto use = found(all, page(0), kPage);
    EXPECT_NE(touch(0, 1), use.lkey()) << "its neighbor in time may be other memory already";
    EXPECT_EQ(device_.live().size(), 1u);
  }
  EXPECT_TRUE(all.prepare(reinterpret_cast<const void*>(page(0)), kPage).ok());
  EXPECT_TRUE(device_.live().empty());
  EXPECT_EQ(all.counts().kept, 0u);
}

// The heap tells of its own changes, so what is in it is kept without hooks too.
TEST_F(RegistrationsTest, WithoutCoherenceHeapMemoryIsKeptUntilItIsGivenBack) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;  // blocks as large give their pages back
  Registrations& all = open({}, Status(Code::unavailable, "no hooks"));
  void* const memory = allocate(kBytes).value();
  EXPECT_TRUE(all.keeps(memory, kBytes));
  EXPECT_FALSE(all.keeps(&memory, sizeof memory));
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uint32_t first = found(all, address, kBytes).lkey();
  EXPECT_EQ(found(all, address, 1).lkey(), first);
  EXPECT_EQ(all.counts().kept, 1u);
  deallocate(memory);
  (void)touch(0, 1);
  EXPECT_TRUE(device_.live().empty());
  EXPECT_EQ(all.counts().kept, 0u);
}

TEST_F(RegistrationsTest, WhenAllThatMayBeKeptIsInUseTheNextIsNotKept) {
  Registrations& all = open();
  std::vector<Registrations::Use> held;
  for (std::size_t i = 0; i < Watch::kMostRanges; ++i) held.push_back(found(all, page(2 * i), 1));
  const std::uint32_t extra = found(all, page(5000), 1).lkey();
  EXPECT_FALSE(device_.live().contains(extra));
  held.erase(held.begin() + 7);
  const std::uint32_t kept = found(all, page(5000), 1).lkey();
  EXPECT_EQ(found(all, page(5000), 1).lkey(), kept);
  EXPECT_EQ(all.counts().kept, Watch::kMostRanges);
  EXPECT_EQ(all.counts().evicted, 1u);
}

// Another device's memory: nobody announces when it goes.
TEST_F(RegistrationsTest, WhatNobodyWatchesLastsAsLongAsItsUse) {
  Registrations& all = open();
  device_.watched = false;
  {
    const auto use = found(all, page(0), kPage);
    EXPECT_EQ(device_.live().size(), 1u);
    EXPECT_EQ(all.counts().kept, 0u);
  }
  EXPECT_TRUE(device_.live().empty());
  touch(0, 1);
  EXPECT_EQ(adds(), 2u);
  device_.watched = true;
  touch(0, 1);
  touch(0, 1);
  EXPECT_EQ(adds(), 3u);
}

TEST_F(RegistrationsTest, TheEndRemovesAllAndNoUseMayOutliveIt) {
  for (std::size_t first = 0; first < 10; ++first) {
    if (first == 0) open();
    (void)touch(first, 3);
  }
  EXPECT_EQ(device_.live().size(), 10u);
  registrations_.reset();
  EXPECT_TRUE(device_.live().empty());
  EXPECT_DEATH(
      {
        auto all = std::make_unique<Registrations>(device_, RegistrationOptions{}, Status{});
        const auto use = found(*all, page(0), 1);
        all.reset();
      },
      "in use when its Registrations end");
}

class PrepareTest : public RegistrationsTest {
 protected:
  static constexpr std::size_t kRegion = 257 * kMiB + 12345;
  static constexpr std::uintptr_t kStart = kBase + 777;
  static const void* start() { return reinterpret_cast<const void*>(kStart); }  // NOLINT
};

TEST_F(PrepareTest, EveryPieceLiesInAChunkThatAThreadRegistered) {
  Registrations& all = open({.threads = 4});
  ASSERT_TRUE(all.prepare(start(), kRegion).ok());
  EXPECT_EQ(adds(), 4u);
  for (std::size_t at = 0; at < kRegion; at += 4093) {
    (void)found(all, kStart + at, std::min(Registrations::kMostPiece, kRegion - at));
  }
  ASSERT_TRUE(all.prepare(start(), kRegion).ok()) << "again";
  EXPECT_EQ(adds(), 4u);
  EXPECT_LT(device_.bytes(), kRegion + 4 * kMiB);
}

// Waits in each call until so many calls are there at once.
class MeetingDevice : public FakeDevice {
 public:
  Result<Registered> add(void* address, std::size_t bytes) override {
    std::unique_lock lock(mutex_);
    ++here_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return here_ >= kTogether; })) {
      return Status(Code::timed_out, "nobody else came");
    }
    return FakeDevice::add(address, bytes);
  }

 private:
  static constexpr int kTogether = 3;
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
};

TEST_F(PrepareTest, ChunksAreRegisteredAtTheSameTime) {
  MeetingDevice device;
  Registrations all(device, {.threads = 3}, Status{});
  const Status status = all.prepare(start(), kRegion);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(device.live().size(), 3u);
}

TEST_F(PrepareTest, OneThreadAndSmallRegionsRegisterOnce) {
  Registrations& all = open();
  ASSERT_TRUE(all.prepare(start(), kRegion).ok());
  EXPECT_EQ(adds(), 1u);
  (void)found(all, kStart, kRegion);
  EXPECT_EQ(adds(), 1u);
  open({.threads = 4});
  ASSERT_TRUE(registrations_->prepare(start(), 2 * Registrations::kLeastChunk - 1).ok());
  EXPECT_EQ(adds(), 2u);
  EXPECT_EQ(registrations_->prepare(start(), 0).code(), Code::invalid_argument);
  EXPECT_EQ(registrations_->prepare(start(), ~std::size_t{0}).code(), Code::invalid_argument);
}

TEST_F(PrepareTest, ChunksThatADeviceRefusedAreAddedAfterEvictions) {
  Registrations& all = open({.threads = 4});
  device_.limit = 300 * kMiB;
  (void)found(all, kBase + (std::uintptr_t{1} << 32), 100 * kMiB);
  ASSERT_TRUE(all.prepare(start(), kRegion).ok());
  EXPECT_EQ(all.counts().kept, 4u);
  EXPECT_EQ(all.counts().evicted, 1u);
  const std::size_t before = adds();
  ASSERT_TRUE(all.prepare(start(), kRegion).ok());
  EXPECT_EQ(adds(), before);
}

TEST_F(PrepareTest, ARegionThatCannotBeHeldIsRefused) {
  for (const std::size_t limit : {200 * kMiB, std::size_t{0}}) {
    Registrations& all = open({.limit_bytes = limit, .threads = 4});
    device_.limit = 200 * kMiB;
    EXPECT_EQ(all.prepare(start(), kRegion).code(), Code::exhausted);
    EXPECT_LE(device_.bytes(), 200 * kMiB);
  }
}

}  // namespace
}  // namespace weft
