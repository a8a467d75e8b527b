// peers: the ranks that this rank is connected to. A peer is connected by the first operation that
// needs it, or when it asks for something, so memory grows with the ranks talked to and not with the
// job. Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/rail_selection.h"
#include "engine/context/roster.h"
#include "engine/execute/execute.h"
#include "engine/membership/membership.h"

namespace weft {

// Where a rank puts the address of its interface into the store, and finds those of others. A value;
// thread safe as the store is.
class AddressBook {
 public:
  AddressBook(Roster roster, std::uint16_t context, std::int64_t deadline_ms)
      : roster_(std::move(roster)), context_(context), deadline_ms_(deadline_ms) {}
  [[nodiscard]] Status tell(std::string address) const;
  // Waits until the rank has joined, at most the deadline.
  [[nodiscard]] Result<std::string> address_of(Rank rank) const;

 private:
  [[nodiscard]] std::string key_of(Rank rank) const;

  Roster roster_;
  std::uint16_t context_;
  std::int64_t deadline_ms_;
};

// Belongs to the holder of the lane's token, but for has_left().
class Peers {
 public:
  Peers(const Config& config, AddressBook addresses, Interface& interface, RailSelection& rails,
        Membership& membership)
      : config_(config),
        addresses_(std::move(addresses)),
        interface_(interface),
        rails_(rails),
        membership_(membership) {}

  // The contact of an operation: connected, with its rails chosen if they can be.
  [[nodiscard]] Result<Contact*> contact(Rank rank) {
    if (Contact* lately = recent(rank)) return lately;
    return find(rank);
  }
  // The contact if it was asked for lately, else nullptr.
  [[nodiscard]] Contact* recent(Rank rank) const {
    Contact* lately = recent_[static_cast<std::size_t>(rank) % recent_.size()];
    return lately != nullptr && lately->rank == rank ? lately : nullptr;
  }
  // The contacts of these ranks, added to `into`.
  [[nodiscard]] Status contacts(std::span<const Rank> ranks, std::vector<Contact*>& into);
  // Of a rank that asks for something; its rails need not be chosen.
  [[nodiscard]] Result<Contact*> connected(Rank rank);

  // The machines of all ranks are known: chooses the rails to the peers that were connected before.
  void choose_rails();
  // Whether the rank's connection says that it closed its context. Any thread.
  [[nodiscard]] bool has_left(Rank rank);

  [[nodiscard]] const AddressBook& addresses() const { return addresses_; }
  [[nodiscard]] const std::unordered_map<Rank, std::unique_ptr<Contact>>& all() const {
    return contacts_;
  }
  // A line for each peer of a call.
  [[nodiscard]] std::string describe_paths(const Call& call) const;

 private:
  [[nodiscard]] Result<Contact*> find(Rank rank);
  [[nodiscard]] Status watch(const Contact& contact, std::string_view address);

  const Config& config_;
  const AddressBook addresses_;
  Interface& interface_;
  RailSelection& rails_;
  Membership& membership_;
  std::mutex mutex_;  // for insertion, and for has_left()
  std::unordered_map<Rank, std::unique_ptr<Contact>> contacts_;
  // The contacts used last, by rank modulo the size: operations on a graph that changes with every
  // step look up a few of them each time.
  std::array<Contact*, 64> recent_{};
};

}  // namespace weft
