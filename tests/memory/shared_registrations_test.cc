// Lanes that share a device: what several of them use is registered once, a lane that lets go takes
// nothing from the others, and nothing stale is found.
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "tests/memory/fake_device.h"

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

using Lane = std::unique_ptr<Registrations>;

class SharedRegistrationsTest : public testing::Test {
 protected:
  Lane lane(const RegistrationOptions& options = {}, const Status& coherence = {}) {
    return std::make_unique<Registrations>(shared_, options, coherence);
  }
  std::uint32_t touch(const Lane& lane, std::size_t first, std::size_t pages) {
    return found(*lane, page(first), pages * kPage).lkey();
  }
  std::size_t adds() { return device_.added.size(); }

  FakeDevice device_;
  SharedRegistrations shared_{device_};
};

TEST_F(SharedRegistrationsTest, WhatTwoLanesUseIsRegisteredOnce) {
  const Lane one = lane();
  const Lane two = lane();
  const std::uint32_t key = touch(one, 0, 8);
  EXPECT_EQ(touch(two, 0, 8), key);
  EXPECT_EQ(touch(two, 2, 3), key) << "a piece of it";
  EXPECT_EQ(adds(), 1u);
  EXPECT_EQ(device_.bytes(), 8 * kPage);
  EXPECT_EQ(two->counts().kept, 1u);
}

TEST_F(SharedRegistrationsTest, APieceThatIsNamedFirstElsewhereIsFoundInTheWhole) {
  const Lane one = lane();
  const Lane two = lane();
  const std::uint32_t key = touch(one, 0, 8);
  EXPECT_EQ(touch(two, 5, 2), key);
  EXPECT_EQ(adds(), 1u);
  (void)touch(two, 5, 4);
  EXPECT_EQ(adds(), 2u) << "partly outside";
}

TEST_F(SharedRegistrationsTest, TheEndOfALaneTakesNothingFromTheOther) {
  Lane one = lane();
  Lane two = lane();
  const std::uint32_t key = touch(one, 0, 8);
  EXPECT_EQ(touch(two, 0, 8), key);
  one.reset();
  EXPECT_TRUE(device_.live().contains(key));
  EXPECT_EQ(touch(two, 0, 8), key);
  two.reset();
  EXPECT_TRUE(device_.live().empty());
}

TEST_F(SharedRegistrationsTest, AChangeBetweenUsesIsSeenByEachLane) {
  const Lane one = lane();
  const Lane two = lane();
  const std::uint32_t old = touch(one, 0, 8);
  EXPECT_EQ(touch(two, 0, 8), old);
  change(3, 1);
  const std::uint32_t now = touch(two, 0, 8);
  EXPECT_NE(now, old) << "though the first lane holds the old one still";
  EXPECT_TRUE(device_.live().contains(old));
  EXPECT_EQ(touch(one, 0, 8), now) << "not even its last hit is found again";
  EXPECT_FALSE(device_.live().contains(old));
  EXPECT_EQ(adds(), 2u);
}

TEST_F(SharedRegistrationsTest, WhatALaneUsesOutlivesAChangeAndTheOthersHolds) {
  const Lane one = lane();
  Lane two = lane();
  auto use = std::make_unique<Registrations::Use>(found(*one, page(0), 8 * kPage));
  const std::uint32_t key = use->lkey();
  EXPECT_EQ(touch(two, 0, 8), key);
  change(0, 8);
  EXPECT_NE(touch(two, 0, 8), key);
  two.reset();
  EXPECT_NE(touch(one, 0, 8), key);
  EXPECT_TRUE(device_.live().contains(key)) << "in use";
  use.reset();
  EXPECT_FALSE(device_.live().contains(key));
}

TEST_F(SharedRegistrationsTest, ALargerOneTakesThePlaceOfThoseInIt) {
  const Lane one = lane();
  const Lane two = lane();
  const Lane three = lane();
  const std::uint32_t small = touch(one, 2, 2);
  const std::uint32_t large = touch(two, 0, 8);
  EXPECT_NE(small, large);
  EXPECT_EQ(touch(three, 2, 2), large);
  EXPECT_EQ(touch(one, 2, 2), small) << "the lane holds it";
  EXPECT_EQ(touch(one, 0, 8), large);
  EXPECT_FALSE(device_.live().contains(small));
}

TEST_F(SharedRegistrationsTest, MemoryThatIsNotAnnouncedIsEachLanesOwn) {
  const Status none(Code::unavailable, "no hooks");
  const Lane one = lane({}, none);
  const Lane two = lane({}, none);
  const auto first = found(*one, page(0), kPage);
  const auto second = found(*two, page(0), kPage);
  EXPECT_NE(first.lkey(), second.lkey());
}

TEST_F(SharedRegistrationsTest, MemoryOfAnotherDeviceIsEachLanesOwn) {
  device_.watched = false;
  const Lane one = lane();
  const Lane two = lane();
  const auto first = found(*one, page(0), kPage);
  const auto second = found(*two, page(0), kPage);
  EXPECT_NE(first.lkey(), second.lkey());
}

TEST_F(SharedRegistrationsTest, MoreThanCanBeWatchedIsEachLanesOwn) {
  const Lane one = lane();
  const Lane two = lane();
  std::vector<Registrations::Use> held;
  for (std::size_t i = 0; i < Watch::kMostRanges; ++i)
    held.push_back(found(*one, page(2 * i), kPage));
  const std::size_t more = 2 * Watch::kMostRanges;
  EXPECT_NE(touch(one, more, 1), touch(two, more, 1));
  held.pop_back();
  (void)touch(one, 0, 1);
  EXPECT_EQ(touch(two, 2, 1), held.at(1).lkey());
}

TEST_F(SharedRegistrationsTest, RoomThatALaneGivesIsTheOthers) {
  const Lane one = lane();
  const Lane two = lane();
  device_.limit = 8 * kPage;
  (void)touch(one, 0, 8);
  const auto refused = two->find(reinterpret_cast<const void*>(page(20)), kPage);  // NOLINT
  EXPECT_EQ(refused.status().code(), Code::exhausted);
  one->give_room();
  EXPECT_EQ(device_.bytes(), 0u);
  (void)touch(two, 20, 8);
}

// Pages of the heap, given back and given out again.
TEST_F(SharedRegistrationsTest, HeapMemoryIsSharedUntilItIsGivenBack) {
  const Status none(Code::unavailable, "no hooks");
  const Lane one = lane({}, none);
  const Lane two = lane({}, none);
  void* const first = allocate(2 * kMiB).value();
  const std::uint32_t key = found(*one, first, 2 * kMiB).lkey();
  EXPECT_EQ(found(*two, first, 2 * kMiB).lkey(), key);
  deallocate(first);
  void* const second = allocate(2 * kMiB).value();
  EXPECT_EQ(second, first) << "the same address, other pages";
  const std::uint32_t now = found(*two, second, 2 * kMiB).lkey();
  EXPECT_NE(now, key);
  EXPECT_EQ(found(*one, second, 2 * kMiB).lkey(), now);
  deallocate(second);
}

// The first call of the device does not end before another lane is about to ask.
class SlowDevice : public FakeDevice {
 public:
  Result<Registered> add(void* address, std::size_t bytes) override {
    if (calls_++ == 0) {
      begun.store(true);
      while (!others_come.load()) std::this_thread::yield();
      if (fails_first) return Status(Code::unavailable, "not now");
    }
    return FakeDevice::add(address, bytes);
  }

  std::atomic<bool> begun{false};
  std::atomic<bool> others_come{false};
  bool fails_first = false;

 private:
  std::atomic<int> calls_{0};
};

// What two lanes get that miss one region at the same time.
std::array<Status, 2> miss_together(SlowDevice& device) {
  SharedRegistrations shared(device);
  Registrations one(shared, {}, Status{});
  Registrations two(shared, {}, Status{});
  const auto ask = [](Registrations& lane) {
    return lane.find(reinterpret_cast<const void*>(kBase), 8 * kPage).status();  // NOLINT
  };
  std::array<Status, 2> got;
  std::thread first([&] { got[0] = ask(one); });
  while (!device.begun.load()) std::this_thread::yield();
  std::thread second([&] {
    device.others_come.store(true);
    got[1] = ask(two);
  });
  first.join();
  second.join();
  return got;
}

TEST(SharedRegistrationsThreads, WhatTwoMissTogetherIsRegisteredOnce) {
  SlowDevice device;
  for (const Status& status : miss_together(device)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(device.added.size(), 1u);
  EXPECT_TRUE(device.live().empty());
}

TEST(SharedRegistrationsThreads, WhoWaitsForOneThatFailsTriesItself) {
  SlowDevice device;
  device.fails_first = true;
  const auto [first, second] = miss_together(device);
  EXPECT_FALSE(first.ok());
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(device.added.size(), 1u);
}

// Pages whose contents change hands while several lanes register them. A lane looks at pages only
// while nobody changes them, as the contract of find() says.
class SharedPages {
 public:
  static constexpr std::size_t kPages = 32;

  void change_some(std::mt19937_64& random) {
    const std::unique_lock lock(mutex);
    const std::size_t first = random() % kPages;
    const std::size_t pages = 1 + random() % std::min<std::size_t>(kPages - first, 4);
    for (std::size_t i = first; i < first + pages; ++i) ++versions[i];
    change(first, pages);
  }

  std::shared_mutex mutex;
  std::vector<int> versions = std::vector<int>(kPages, 0);
};

// Remembers the versions of the pages that a key pins.
class VersionedDevice : public FakeDevice {
 public:
  explicit VersionedDevice(const SharedPages& pages) : pages_(pages) {}

  Result<Registered> add(void* address, std::size_t bytes) override {
    Result<Registered> given = FakeDevice::add(address, bytes);
    if (!given.ok()) return given;
    const std::scoped_lock lock(mutex_);
    const std::size_t first = (reinterpret_cast<std::uintptr_t>(address) - kBase) / kPage;
    Pinned& pinned = pinned_[given->lkey];
    pinned.first = first;
    for (std::size_t i = first; i < first + bytes / kPage; ++i)
      pinned.versions.push_back(pages_.versions[i]);
    return given;
  }
  void remove(void* native) override {
    {
      const std::scoped_lock lock(mutex_);
      pinned_.erase(static_cast<std::uint32_t>(std::uintptr_t(native)));
    }
    FakeDevice::remove(native);
  }
  bool is_registered(std::uint32_t key) {
    const std::scoped_lock lock(mutex_);
    return pinned_.contains(key);
  }
  // Whether the key pins these pages as they are now.
  bool is_current(std::uint32_t key, std::size_t first, std::size_t pages) {
    const std::scoped_lock lock(mutex_);
    const auto found = pinned_.find(key);
    if (found == pinned_.end() || found->second.first > first) return false;
    const Pinned& pinned = found->second;
    if (first + pages > pinned.first + pinned.versions.size()) return false;
    for (std::size_t i = first; i < first + pages; ++i) {
      if (pinned.versions[i - pinned.first] != pages_.versions[i]) return false;
    }
    return true;
  }

 private:
  struct Pinned {
    std::size_t first = 0;
    std::vector<int> versions;
  };
  const SharedPages& pages_;
  std::mutex mutex_;
  std::map<std::uint32_t, Pinned> pinned_;
};

// A lane's turns: it finds pages, holds some of them, and lets others go.
void use_pages(SharedPages& pages, VersionedDevice& device, SharedRegistrations& shared,
               std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const RegistrationOptions options{.limit_bytes = 40 * kPage};
  auto own = std::make_unique<Registrations>(shared, options, Status{});
  std::vector<Registrations::Use> held;
  for (int turn = 0; turn < 2000; ++turn) {
    if (random() % 500 == 0) {
      held.clear();
      own = std::make_unique<Registrations>(shared, options, Status{});
    }
    if (held.size() > 2 || (!held.empty() && random() % 3 == 0)) held.erase(held.begin());
    const std::size_t first = random() % SharedPages::kPages;
    const std::size_t count = 1 + random() % std::min<std::size_t>(SharedPages::kPages - first, 8);
    const std::shared_lock lock(pages.mutex);
    auto use = own->find(reinterpret_cast<const void*>(page(first)), count * kPage);  // NOLINT
    if (!use.ok()) continue;  // the limit, while others are in use
    EXPECT_TRUE(device.is_current(use->lkey(), first, count)) << "registered pages that are gone";
    for (const auto& other : held) EXPECT_TRUE(device.is_registered(other.lkey()));
    if (random() % 4 == 0) held.push_back(std::move(use).value());
    if (random() % 200 == 0) own->give_room();
  }
}

TEST(SharedRegistrationsThreads, NothingStaleIsFoundAndNothingInUseRemoved) {
  SharedPages pages;
  VersionedDevice device(pages);
  {
    SharedRegistrations shared(device);
    std::atomic<int> working{3};
    std::vector<std::thread> lanes;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      lanes.emplace_back([&, seed] {
        use_pages(pages, device, shared, seed);
        --working;
      });
    }
    std::mt19937_64 random(7);
    while (working.load() != 0) {
      pages.change_some(random);
      std::this_thread::yield();
    }
    for (std::thread& lane : lanes) lane.join();
  }
  EXPECT_TRUE(device.live().empty());
}

}  // namespace
}  // namespace weft
