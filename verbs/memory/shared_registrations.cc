// Registering each range once for all lanes of the process.
#include "verbs/memory/shared_registrations.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft {

SharedRegistrations::SharedRegistrations(RegistrationBackend& device)
    : device_(device), by_number_(Watch::kMostRanges, nullptr) {}

SharedRegistrations::~SharedRegistrations() {
  invariant(held_.empty() && under_way_.empty(), "a lane holds a registration at their end");
}

Result<Registered> SharedRegistrations::add(void* address, std::size_t bytes) {
  return device_.add(address, bytes);
}

// The caller's pages stay mapped until it removes what it gets. So a range that covers them and is
// not marked pins these very pages: a change since it was registered would have been announced
// before the caller's memory could be mapped.
Result<Registered> SharedRegistrations::share(void* address, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  std::unique_lock lock(mutex_);
  while (true) {
    if (watch_.changed()) forget_changed();
    const RangePtr found = covering(start, start + bytes);
    if (found == nullptr) break;
    if (!found->registering) {
      ++found->holders;
      return found->given;
    }
    finished_.wait(lock, [&found] { return !found->registering; });
  }
  const RangePtr range = begin(start, start + bytes);
  lock.unlock();
  Result<Registered> given = device_.add(address, bytes);
  if (range == nullptr) return given;
  lock.lock();
  return finish(range, std::move(given));
}

void SharedRegistrations::remove(void* native) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = held_.find(native);
    if (found != held_.end()) {
      Range& range = *found->second;
      if (--range.holders != 0) return;
      if (range.watched) forget(range);
      held_.erase(found);
    }
  }
  device_.remove(native);
}

SharedRegistrations::RangePtr SharedRegistrations::covering(std::uintptr_t start,
                                                            std::uintptr_t end) const {
  if (RangePtr ready = ready_covering(start, end)) return ready;
  const auto found = std::ranges::find_if(under_way_, [&](const RangePtr& range) {
    return range->watched && range->start <= start && range->end >= end;
  });
  return found == under_way_.end() ? nullptr : *found;
}

// Of those that start no later, the last one also ends last.
SharedRegistrations::RangePtr SharedRegistrations::ready_covering(std::uintptr_t start,
                                                                  std::uintptr_t end) const {
  const auto after = by_start_.upper_bound(start);
  if (after == by_start_.begin()) return nullptr;
  const RangePtr& candidate = std::prev(after)->second;
  return candidate->end >= end ? candidate : nullptr;
}

// Watches the pages before they are registered, so that no change from then on is missed. Returns
// nothing if no more ranges can be watched: such a registration is its lane's own.
SharedRegistrations::RangePtr SharedRegistrations::begin(std::uintptr_t start, std::uintptr_t end) {
  const std::optional<std::size_t> number = watch_.begin(start, end);
  if (!number) return nullptr;
  auto range = std::make_shared<Range>(Range{start, end, *number});
  by_number_[*number] = range.get();
  under_way_.push_back(range);
  return range;
}

// Those that wait for the range look again for one that they can have, or register themselves.
Result<Registered> SharedRegistrations::finish(const RangePtr& range, Result<Registered> given) {
  std::erase(under_way_, range);
  range->registering = false;
  finished_.notify_all();
  if (!given.ok() || !given->watched) {
    if (range->watched) forget(*range);
    return given;
  }
  range->given = given.value();
  range->holders = 1;
  held_[range->given.native] = range;
  if (range->watched) publish(range);
  return given;
}

// Gives the range out from now on, instead of those that lie within it, unless meanwhile a larger
// one was registered.
void SharedRegistrations::publish(const RangePtr& range) {
  if (ready_covering(range->start, range->end) != nullptr) return forget(*range);
  auto at = by_start_.lower_bound(range->start);
  while (at != by_start_.end() && at->second->end <= range->end) forget(*(at++)->second);
  by_start_.emplace(range->start, range);
}

// The range is not given out any more. It stays registered while it has holders.
void SharedRegistrations::forget(Range& range) {
  watch_.end(range.number);
  by_number_[range.number] = nullptr;
  range.watched = false;
  const auto at = by_start_.find(range.start);
  if (at != by_start_.end() && at->second.get() == &range) by_start_.erase(at);
}

void SharedRegistrations::forget_changed() {
  for (const std::size_t number : watch_.take_changed()) forget(*by_number_[number]);
}

}  // namespace weft
