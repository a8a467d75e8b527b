// mutexes: the calls on a window's mutexes, and the hands on them.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/window/window.h"

namespace weft {
using window::CallName;
using window::Gone;
using window::Hand;
using window::Head;
using window::Locks;
using window::LockTask;
using window::Settling;

// The hands on the mutexes of these ranks, those that lock() holds left out.
Result<std::unique_ptr<Locks>> WindowObject::locks_of(std::string_view what,
                                                      std::vector<Rank> ranks, Gone gone) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<Hand*> hands;
  for (const Rank rank : ranks) {
    const bool is_known = rank == setup_.self || std::ranges::binary_search(in_ranks_, rank) ||
                          std::ranges::binary_search(out_ranks_, rank);
    if (!is_known) {
      return invalid(what, fmt::format("has no neighbor {} at rank {}, and so no mutex of it", rank,
                                       setup_.self));
    }
    std::unique_ptr<Hand>& hand = hands_[rank];
    if (hand == nullptr) {
      if (const Status alive = setup_.check_alive(rank, nullptr); !alive.ok()) {
        if (gone == Gone::pass) continue;
        return named(what, alive);
      }
      WEFT_ASSIGN(const window::Place place, setup_.mutex_of(rank));
      hand = std::make_unique<Hand>(place,
                                    place.memory.part(offsetof(Head, lock), sizeof(std::uint64_t)),
                                    attempts_, setup_.self);
    }
    if (held_ != nullptr && std::ranges::find(held_->hands(), hand.get()) != held_->hands().end())
      continue;
    hands.push_back(hand.get());
  }
  return std::make_unique<Locks>(std::move(hands), setup_.check_alive, gone);
}

void WindowObject::settle(const Locks& locks) {
  std::vector<Hand*> hands = locks.settling();
  const std::shared_ptr<Lane> lane = hands.empty() ? nullptr : lane_.lock();
  if (lane == nullptr) return;
  lane->add(std::make_shared<Settling>(shared_from_this(), std::move(hands), setup_.check_alive));
}

Status WindowObject::take(Lane& lane, Locks& locks) {
  WEFT_RETURN_IF_ERROR(locks.acquire(deadline_ns()));
  const std::uint32_t number = setup_.timeline->begins(names_, CallName::lock);
  LockTask taking(locks, true);
  lane.run(taking);
  settle(locks);
  setup_.timeline->ends(number, taking.status());
  return taking.status();
}

Status WindowObject::give_back(Lane& lane, Locks& locks) {
  WEFT_RETURN_IF_ERROR(locks.release(deadline_ns()));
  LockTask giving(locks, false);
  lane.run(giving);
  settle(locks);
  return giving.status();
}

Status WindowObject::lock(std::span<const Rank> ranks) {
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  if (held_ != nullptr) return invalid("win_lock", "is locked by this rank already");
  if (ranks.empty()) return {};
  WEFT_ASSIGN(std::unique_ptr<Locks> locks,
              locks_of("win_lock", {ranks.begin(), ranks.end()}, Gone::fail));
  WEFT_RETURN_IF_ERROR(named("win_lock", take(*lane, *locks)));
  held_ = std::move(locks);
  return {};
}

Status WindowObject::unlock() {
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  if (held_ == nullptr) return {};
  const std::unique_ptr<Locks> locks = std::move(held_);
  return named("win_unlock", give_back(*lane, *locks));
}

}  // namespace weft
