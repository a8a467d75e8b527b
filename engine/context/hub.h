// Hub: one store shared by the contexts of a process. Its events (a rank left, a rank died) are
// read by whichever context looks first and told to all.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/membership/membership.h"

namespace weft {

// Thread safe. Lives as long as a context uses its store; the last one says the store's goodbye if
// nobody else holds the store.
class Hub {
 public:
  // The hub of a store: the same for all contexts on it.
  static std::shared_ptr<Hub> of(const std::shared_ptr<Store>& store);
  explicit Hub(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  [[nodiscard]] Store& store() const { return *store_; }
  // `ranks`: the job's ranks that the membership counts as 0, 1, …; empty: all, as they are. Of
  // others it hears nothing.
  void add(Membership* membership, std::vector<Rank> ranks = {});
  void remove(Membership* membership);
  // Tells the memberships what the store has learnt since the last call. Does not wait.
  void tell_events();

 private:
  std::shared_ptr<Store> store_;
  std::mutex mutex_;
  struct Listener {
    Membership* membership;
    std::vector<Rank> ranks;
  };
  static void tell(const Listener& listener, const StoreEvent& event);

  std::vector<Listener> listeners_;
  std::vector<StoreEvent> seen_;  // for those that come later
};

}  // namespace weft
