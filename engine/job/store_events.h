// StoreEvents: one store that several contexts of a process share. The first context that calls
// tell_events() reads the store's events (a rank left, a rank died), and all contexts get them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/membership/membership.h"

namespace weft {

// One of the processes that have the number of a rank in the course of a job.
struct Incarnation {
  Rank rank = 0;
  int number = 0;  // how often the rank's number had been given before
  bool operator==(const Incarnation&) const = default;
};

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
  // From now on reports events to the membership, and first those that were read before. `incarnations`:
  // those that have the numbers 0, 1, … in the membership's context; empty: all ranks of the job as they were
  // at first, with the same numbers. Events of others are not reported to it.
  void add(Membership* membership, std::vector<Incarnation> incarnations = {});
  void remove(Membership* membership);
  // Reports the store's new events to the memberships. Does not wait.
  void tell_events();
  // The last event of each rank so far, in the order in which they came. One of a later incarnation says that
  // those before it are gone.
  [[nodiscard]] std::vector<StoreEvent> seen();
  // Of the events so far: the incarnations of ranks that have returned and are there, and whether any ever has.
  [[nodiscard]] std::vector<Incarnation> returned();
  [[nodiscard]] bool has_any_returned() const { return has_any_returned_; }
  [[nodiscard]] bool is_gone(const Incarnation& who);
  // The ranks that are gone now.
  [[nodiscard]] int count_gone();
  // Counts the uses of a name: 0, 1, … in the order of the calls.
  [[nodiscard]] int next_of(const std::string& name);

 private:
  std::shared_ptr<Store> store_;
  std::mutex mutex_;
  struct Listener {
    Membership* membership;
    std::vector<Incarnation> incarnations;
  };
  static void tell(const Listener& listener, const StoreEvent& event);

  std::vector<Listener> listeners_;
  std::vector<StoreEvent> seen_;  // for listeners that are added later
  std::atomic<bool> has_any_returned_ = false;
  std::map<std::string, int> uses_;
};

}  // namespace weft
