// SharedRegistrations: what the lanes of this process have registered with one device, each range
// once. It stands between the Registrations of each lane and the device. A lane finds again what it
// holds in its own Registrations, without a lock; only its misses come here.
//
//   lane 1: Registrations ──┐ a miss
//   lane 2: Registrations ──┼────────► SharedRegistrations ────────► device
//                           │ share()    one mutex, each range once    add()
//
// A range lives as long as a lane holds it: share() adds a holder, remove() takes one away, and the
// last one deregisters. So a lane's own hit cannot outlive the registration, and what a queue pair
// may still use is never removed. Nothing is kept here for its own sake.
//
// If pages go (changes.h), the range is not given out any more. Each lane hears of the change by a
// Watch of its own and lets go of the range at its next find(), or with its last Use.
//
// Several lanes that miss one range at the same time register it once: the first does, the others
// wait for it. The mutex is not held while the device works, so that threads can register different
// ranges together. Under the mutex nothing is called that takes another lock.
//
// Bounds: at most Watch::kMostRanges ranges are shared. Beyond that each lane registers for itself.
//
// Threads: all functions from any thread. Lifetime: longer than that of all Registrations over it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "verbs/memory/changes.h"
#include "verbs/memory/registrations.h"

namespace weft {

class SharedRegistrations final : public RegistrationBackend {
 public:
  explicit SharedRegistrations(RegistrationBackend& device);
  ~SharedRegistrations() override;
  SharedRegistrations(const SharedRegistrations&) = delete;
  SharedRegistrations& operator=(const SharedRegistrations&) = delete;

  // A registration for this caller alone.
  Result<Registered> add(void* address, std::size_t bytes) override;
  Result<Registered> share(void* address, std::size_t bytes) override;
  // Takes one holder away, or removes what add() gave.
  void remove(void* native) override;

 private:
  struct Range {
    std::uintptr_t start;
    std::uintptr_t end;
    std::size_t number;       // in the watch, while `watched`
    bool watched = true;      // its changes are looked for; false: it is not given out any more
    bool registering = true;  // the device works on it
    std::size_t holders = 0;
    Registered given{};
  };
  using RangePtr = std::shared_ptr<Range>;

  [[nodiscard]] RangePtr covering(std::uintptr_t start, std::uintptr_t end) const;
  [[nodiscard]] RangePtr ready_covering(std::uintptr_t start, std::uintptr_t end) const;
  RangePtr begin(std::uintptr_t start, std::uintptr_t end);
  Result<Registered> finish(const RangePtr& range, Result<Registered> given);
  void publish(const RangePtr& range);
  void forget(Range& range);
  void forget_changed();

  RegistrationBackend& device_;
  std::mutex mutex_;  // guards all that follows
  std::condition_variable finished_;
  Watch watch_;
  std::map<std::uintptr_t, RangePtr> by_start_;  // given out; none lies within another
  std::vector<RangePtr> under_way_;              // the device works on them
  std::vector<Range*> by_number_;                // by number in the watch
  std::unordered_map<void*, RangePtr> held_;     // by `native`; given out or not
};

}  // namespace weft
