// A device that registers numbers instead of memory: it counts, remembers what is registered, and
// refuses what passes its limit. Thread safe, like ibv_reg_mr.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <vector>

#include "verbs/memory/memory.h"

namespace weft {

class FakeDevice : public RegistrationBackend {
 public:
  struct Range {
    std::uintptr_t start;
    std::size_t bytes;
    bool operator==(const Range&) const = default;
  };

  Result<Registered> add(void* address, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (!failure.ok()) return failure;
    if (bytes > limit - bytes_) return Status(Code::exhausted, "ibv_reg_mr: no memory");
    bytes_ += bytes;
    const std::uint32_t key = ++keys_;
    added.push_back({reinterpret_cast<std::uintptr_t>(address), bytes});
    live_[key] = added.back();
    return Registered{key, key + 1000, reinterpret_cast<void*>(std::uintptr_t{key}),  // NOLINT
                      watched};
  }
  void remove(void* native) override {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<std::uint32_t>(std::uintptr_t(native)));
    ASSERT_NE(found, live_.end()) << "removed twice";
    bytes_ -= found->second.bytes;
    live_.erase(found);
  }

  // By lkey.
  [[nodiscard]] const std::map<std::uint32_t, Range>& live() const { return live_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  std::size_t limit = ~std::size_t{0};
  Status failure;
  bool watched = true;       // Registered::watched of what is added
  std::vector<Range> added;  // in order

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, Range> live_;
  std::size_t bytes_ = 0;
  std::uint32_t keys_ = 0;
};

inline Registrations::Use found(Registrations& registrations, std::uintptr_t start,
                                std::size_t bytes) {
  auto use = registrations.find(reinterpret_cast<const void*>(start), bytes);  // NOLINT
  EXPECT_TRUE(use.ok()) << use.status().to_string();
  return std::move(use).value();
}

inline Registrations::Use found(Registrations& registrations, const void* at, std::size_t bytes) {
  return found(registrations, reinterpret_cast<std::uintptr_t>(at), bytes);
}

}  // namespace weft
