// The registry of hubs, and the fan-out of a store's events.
#include "engine/context/hub.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

// How long the last context waits for the others to leave when its process hosts the rendezvous.
constexpr std::int64_t kGoodbyeMs = 10'000;

struct Registry {
  std::mutex mutex;
  std::map<const Store*, std::weak_ptr<Hub>> hubs;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

void tell(Membership& membership, const StoreEvent& event) {
  switch (event.kind) {
    case StoreEvent::Kind::left:
      membership.mark_left(event.rank);
      break;
    case StoreEvent::Kind::died:
      membership.mark_died(event.rank, event.reason);
      break;
    case StoreEvent::Kind::lost:
      break;  // transfers go on without the rendezvous
  }
}

}  // namespace

std::shared_ptr<Hub> Hub::of(const std::shared_ptr<Store>& store) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.hubs, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Hub>& known = all.hubs[store.get()];
  if (auto hub = known.lock()) return hub;
  auto hub = std::make_shared<Hub>(store);
  known = hub;
  return hub;
}

Hub::~Hub() {
  // Others may still use the store; then the goodbye is theirs.
  if (store_.use_count() == 1) (void)store_->goodbye(Deadline::after_ms(kGoodbyeMs));
}

void Hub::add(Membership* membership) {
  const std::lock_guard lock(mutex_);
  memberships_.push_back(membership);
  for (const StoreEvent& event : seen_) tell(*membership, event);
}

void Hub::remove(Membership* membership) {
  const std::lock_guard lock(mutex_);
  std::erase(memberships_, membership);
}

void Hub::tell_events() {
  const std::lock_guard lock(mutex_);
  while (std::optional<StoreEvent> event = store_->next_event()) {
    for (Membership* membership : memberships_) tell(*membership, *event);
    seen_.push_back(std::move(*event));
  }
}

}  // namespace weft
