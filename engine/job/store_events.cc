// store_events: the StoreEvents of each store, and the reporting of its events to all memberships.
#include "engine/job/store_events.h"

#include <algorithm>

namespace weft {
namespace {

// How long the last context waits for the others to leave when its process hosts the rendezvous.
constexpr std::int64_t kGoodbyeMs = 10'000;

struct Registry {
  std::mutex mutex;
  std::map<const Store*, std::weak_ptr<StoreEvents>> by_store;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

std::shared_ptr<StoreEvents> StoreEvents::of(const std::shared_ptr<Store>& store) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_store, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<StoreEvents>& known = all.by_store[store.get()];
  if (auto events = known.lock()) return events;
  auto events = std::make_shared<StoreEvents>(store);
  known = events;
  return events;
}

StoreEvents::~StoreEvents() {
  // If others still hold the store, the goodbye is left to them.
  if (store_.use_count() == 1) (void)store_->goodbye(Deadline::after_ms(kGoodbyeMs));
}

void StoreEvents::tell(const Listener& listener, const StoreEvent& event) {
  // The end of the rendezvous is not reported, because transfers continue without it.
  if (event.kind == StoreEvent::Kind::lost) return;
  Rank rank = event.rank;
  int incarnation = 0;
  if (!listener.incarnations.empty()) {
    const auto found = std::ranges::find(listener.incarnations, rank, &Incarnation::rank);
    if (found == listener.incarnations.end()) return;
    rank = static_cast<Rank>(found - listener.incarnations.begin());
    incarnation = found->number;
  }
  if (event.incarnation > incarnation) {
    listener.membership->mark_died(rank, "another process has its number");
  } else if (event.incarnation < incarnation || event.kind == StoreEvent::Kind::returned) {
    return;
  } else if (event.kind == StoreEvent::Kind::left) {
    listener.membership->mark_left(rank);
  } else {
    listener.membership->mark_died(rank, event.reason);
  }
}

void StoreEvents::add(Membership* membership, std::vector<Incarnation> incarnations) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back({membership, std::move(incarnations)});
  for (const StoreEvent& event : seen_) tell(listeners_.back(), event);
}

void StoreEvents::remove(Membership* membership) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_,
                [&](const Listener& listener) { return listener.membership == membership; });
}

std::vector<StoreEvent> StoreEvents::seen() {
  tell_events();
  const std::lock_guard lock(mutex_);
  return seen_;
}

namespace {

bool is_end(const StoreEvent& event) {
  return event.kind == StoreEvent::Kind::died || event.kind == StoreEvent::Kind::left;
}

}  // namespace

std::vector<Incarnation> StoreEvents::returned() {
  std::vector<Incarnation> incarnations;
  if (tell_events(); !has_any_returned_) return incarnations;
  const std::lock_guard lock(mutex_);
  for (const StoreEvent& event : seen_) {
    if (event.kind == StoreEvent::Kind::returned)
      incarnations.push_back({event.rank, event.incarnation});
  }
  std::ranges::sort(incarnations, {}, &Incarnation::rank);
  return incarnations;
}

int StoreEvents::count_gone() {
  tell_events();
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(seen_, is_end));
}

bool StoreEvents::is_gone(const Incarnation& who) {
  tell_events();
  const std::lock_guard lock(mutex_);
  const auto last = std::ranges::find(seen_, who.rank, &StoreEvent::rank);
  return last != seen_.end() &&
         (last->incarnation > who.number || (is_end(*last) && last->incarnation == who.number));
}

int StoreEvents::next_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return uses_[name]++;
}

void StoreEvents::tell_events() {
  const std::lock_guard lock(mutex_);
  while (std::optional<StoreEvent> event = store_->next_event()) {
    for (const Listener& listener : listeners_) tell(listener, *event);
    if (event->kind == StoreEvent::Kind::returned) has_any_returned_ = true;
    std::erase_if(seen_, [&](const StoreEvent& each) { return each.rank == event->rank; });
    seen_.push_back(std::move(*event));
  }
}

}  // namespace weft
