// The registration cache against a model of memory: random requests, uses, changes and limits.
#include <algorithm>
#include <random>
#include <set>

#include "tests/memory/fake_device.h"

namespace weft {
namespace {

constexpr std::uintptr_t kBase = 0x10000000;  // of memory that does not exist
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 48;

// What a registration pinned: for each of its pages the number of changes that it had seen.
struct Pinned {
  std::size_t first;
  std::vector<int> versions;
  bool covered = false;  // by one that was registered later
};

class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {
    RegistrationOptions options;
    if (draw(2) == 0) options.limit_bytes = limit_ = (8 + draw(60)) * kPage;
    if (draw(2) == 0) device_.limit = (8 + draw(60)) * kPage;
    registrations_ = std::make_unique<Registrations>(device_, options, Status{});
  }
  ~Model() {
    held_.clear();
    registrations_.reset();
    EXPECT_TRUE(device_.live().empty());
  }

  void step() {
    const std::size_t choice = draw(10);
    if (choice < 6) {
      find();
    } else if (choice < 8 && !held_.empty()) {
      std::swap(held_[draw(held_.size())], held_.back());
      held_.pop_back();
    } else {
      change();
    }
    check();
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }

  [[nodiscard]] bool is_current(const Pinned& pinned, std::size_t first, std::size_t pages) const {
    for (std::size_t i = first; i < first + pages; ++i) {
      if (versions_[i] != pinned.versions[i - pinned.first]) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_expected(std::size_t first, std::size_t pages) const {
    return std::ranges::any_of(device_.live(), [&](const auto& entry) {
      const Pinned& pinned = pinned_.at(entry.first);
      const std::size_t size = pinned.versions.size();
      return !pinned.covered && pinned.first <= first && first + pages <= pinned.first + size &&
             is_current(pinned, pinned.first, size);
    });
  }
  void pin(std::uint32_t lkey, std::size_t first, std::size_t pages) {
    for (auto& [key, old] : pinned_) {
      if (old.first >= first && old.first + old.versions.size() <= first + pages)
        old.covered = true;
    }
    const auto from = versions_.begin() + static_cast<std::ptrdiff_t>(first);
    pinned_[lkey] = {first, std::vector<int>(from, from + static_cast<std::ptrdiff_t>(pages))};
  }

  void find() {
    const std::size_t first = draw(kPages);
    const std::size_t pages = 1 + draw(std::min<std::size_t>(kPages - first, 12));
    const std::size_t skipped = draw(kPage);
    const bool expected = is_expected(first, pages);
    const std::size_t adds = device_.added.size();
    auto use = registrations_->find(
        reinterpret_cast<const void*>(kBase + first * kPage + skipped),  // NOLINT
        pages * kPage - skipped);
    if (!use.ok()) return refused(use.status(), pages);
    if (device_.added.size() != adds) pin(use->lkey(), first, pages);
    EXPECT_FALSE(expected && device_.added.size() != adds) << "a registration was there";
    const Pinned& pinned = pinned_.at(use->lkey());
    ASSERT_LE(pinned.first, first);
    ASSERT_LE(first + pages, pinned.first + pinned.versions.size());
    EXPECT_TRUE(is_current(pinned, first, pages)) << "registered pages that are gone";
    if (draw(2) == 0) held_.push_back(std::move(use).value());
  }

  // Only what is in use may stand in the way.
  void refused(const Status& status, std::size_t pages) {
    EXPECT_EQ(status.code(), Code::exhausted) << status.to_string();
    std::size_t most = device_.limit;
    if (limit_ != 0) most = std::min(most, limit_);
    if (pages * kPage > most) return;
    EXPECT_EQ(device_.live().size(), keys_in_use().size()) << status.to_string();
    EXPECT_GT(device_.bytes() + pages * kPage, most);
  }

  // Also of memory that is in use: a caller's mistake, which must not reach others.
  void change() {
    const std::size_t first = draw(kPages);
    const std::size_t pages = 1 + draw(std::min<std::size_t>(kPages - first, 4));
    for (std::size_t i = first; i < first + pages; ++i) ++versions_[i];
    announce_change(reinterpret_cast<const void*>(kBase + first * kPage), pages * kPage);  // NOLINT
  }

  [[nodiscard]] std::set<std::uint32_t> keys_in_use() const {
    std::set<std::uint32_t> keys;
    for (const auto& use : held_) keys.insert(use.lkey());
    return keys;
  }

  void check() {
    for (const std::uint32_t key : keys_in_use()) {
      EXPECT_TRUE(device_.live().contains(key)) << "removed in use";
    }
    EXPECT_EQ(registrations_->counts().bytes, device_.bytes());
    EXPECT_LE(device_.bytes(), limit_ == 0 ? device_.limit : limit_);
  }

  std::mt19937_64 random_;
  FakeDevice device_;
  std::size_t limit_ = 0;
  std::vector<int> versions_ = std::vector<int>(kPages, 0);
  std::map<std::uint32_t, Pinned> pinned_;  // by lkey, also of what was removed
  std::unique_ptr<Registrations> registrations_;
  std::vector<Registrations::Use> held_;
};

TEST(RegistrationsRandom, NothingStaleIsFoundAndNothingInUseRemoved) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Model model(seed);
    for (int step = 0; step < 500; ++step) model.step();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft
