// StoreEvents: one store that several contexts of a process share. The first context that calls
// tell_events() reads the store's events (a rank left, a rank died), and all contexts get them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/membership/membership.h"

namespace weft {

// Thread safe. It lives as long as a context uses its store. The destructor says the store's goodbye
// if nobody else holds the store.
class StoreEvents {
 public:
  // The events of a store: the same for all contexts on it.
  static std::shared_ptr<StoreEvents> of(const std::shared_ptr<Store>& store);
  explicit StoreEvents(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  ~StoreEvents();
  StoreEvents(const StoreEvents&) = delete;
  StoreEvents& operator=(const StoreEvents&) = delete;

  [[nodiscard]] Store& store() const { return *store_; }
  // From now on reports events to the membership, and first those that were read before. `ranks`:
  // the ranks of the job that have the numbers 0, 1, … in the membership's context; empty: all
  // ranks of the job, with the same numbers. Events of other ranks are not reported to it.
  void add(Membership* membership, std::vector<Rank> ranks = {});
  void remove(Membership* membership);
  // Reports the store's new events to the memberships. Does not wait.
  void tell_events();
  // The events so far, after tell_events().
  [[nodiscard]] std::vector<StoreEvent> seen();
  // Counts the uses of a name: 0, 1, … in the order of the calls.
  [[nodiscard]] int next_of(const std::string& name);

 private:
  std::shared_ptr<Store> store_;
  std::mutex mutex_;
  struct Listener {
    Membership* membership;
    std::vector<Rank> ranks;
  };
  static void tell(const Listener& listener, const StoreEvent& event);

  std::vector<Listener> listeners_;
  std::vector<StoreEvent> seen_;  // for listeners that are added later
  std::map<std::string, int> uses_;
};

}  // namespace weft
