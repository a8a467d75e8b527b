// peers: the ranks that this rank is connected to. A rank is connected by the first operation that
// needs it, or when it sends a control notice. So memory grows with the number of peers, and not
// with the size of the job. Internal to the module.
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
#include "engine/execute/execute.h"
#include "engine/job/job.h"
#include "engine/membership/membership.h"

namespace weft {

// The addresses of the ranks' interfaces in the store. Thread safe; copies share what learn() got.
class AddressBook {
 public:
  // `lane`: the number of the lane whose interfaces these are.
  AddressBook(RankMap rank_map, std::uint16_t context, std::size_t lane = 0)
      : rank_map_(std::move(rank_map)), context_(context), lane_(lane) {}
  // Puts the address of this rank.
  [[nodiscard]] Status tell(std::string address) const;
  // Gets the address of a rank. Waits until that rank has joined, at most so long.
  [[nodiscard]] Result<std::string> address_of(Rank rank, std::int64_t patience_ms) const;
  // The same of a rank that has been heard of, and so has put its address. Waits for the answer of the
  // rendezvous alone, so that a rank that is stopped with it holds nobody up.
  [[nodiscard]] Result<std::string> address_of_joined(Rank rank) const;
  // Gets the addresses of all ranks, up to one that has not joined: an error. Connecting to those ranks does not
  // need the store after that.
  [[nodiscard]] Status learn() const;
  [[nodiscard]] bool knows_all() const;

 private:
  struct Known {
    std::mutex mutex;
    std::vector<std::string> addresses;  // of ranks 0, 1, …
  };
  [[nodiscard]] std::string key_of(Rank rank) const;

  RankMap rank_map_;
  std::uint16_t context_;
  std::size_t lane_;
  std::shared_ptr<Known> known_ = std::make_shared<Known>();
};

// Belongs to the holder of the lane's token, except has_left().
class Peers {
 public:
  // Who makes the membership notice the end of a peer's process: these Peers, or those of another
  // lane, which connects to the same ranks.
  enum class Watching : std::uint8_t { here, others_do };

  Peers(const Config& config, AddressBook addresses, Interface& interface, RailSelection& rails,
        Membership& membership, Watching watching = Watching::here)
      : config_(config),
        addresses_(std::move(addresses)),
        interface_(interface),
        rails_(rails),
        membership_(membership),
        watching_(watching) {}

  // The connection of a rank for an operation: connected, and with its rails chosen if the machines of
  // all ranks are known.
  [[nodiscard]] Result<PeerConnection*> connection(Rank rank) {
    if (PeerConnection* lately = recent(rank)) return lately;
    return find(rank);
  }
  // The rank's connection if it is among those used last, else nullptr.
  [[nodiscard]] PeerConnection* recent(Rank rank) const {
    PeerConnection* lately = recent_[static_cast<std::size_t>(rank) % recent_.size()];
    return lately != nullptr && lately->rank == rank ? lately : nullptr;
  }
  // The connections of these ranks, added to `into`.
  [[nodiscard]] Status connections(std::span<const Rank> ranks, std::vector<PeerConnection*>& into);
  // The connection of a rank that has sent a control notice: connected, but perhaps without rails
  // chosen.
  [[nodiscard]] Result<PeerConnection*> connected(Rank rank);

  // Chooses the rails to peers that were connected before the machines of all ranks were known.
  void choose_rails();
  // Whether the rank has closed its context, as its connection shows. Any thread.
  [[nodiscard]] bool has_left(Rank rank);

  [[nodiscard]] const AddressBook& addresses() const { return addresses_; }
  [[nodiscard]] const std::unordered_map<Rank, std::unique_ptr<PeerConnection>>& all() const {
    return connections_;
  }
  // What operations sent to ranks of other machines.
  [[nodiscard]] std::uint64_t network_bytes() const;
  // A line for each peer of a call.
  [[nodiscard]] std::string describe_paths(const Call& call) const;

 private:
  [[nodiscard]] Result<PeerConnection*> find(Rank rank);
  [[nodiscard]] PeerConnection* known(Rank rank) const;
  [[nodiscard]] Result<PeerConnection*> connect(Rank rank, const std::string& address);
  [[nodiscard]] Status watch(const PeerConnection& connection, std::string_view address);

  const Config& config_;
  const AddressBook addresses_;
  Interface& interface_;
  RailSelection& rails_;
  Membership& membership_;
  const Watching watching_;
  std::mutex mutex_;  // guards connections_ between insertion and has_left()
  std::unordered_map<Rank, std::unique_ptr<PeerConnection>> connections_;
  // The connections used last, by rank modulo the size of the array. Operations over a graph that
  // changes at every step look up a few connections each time.
  std::array<PeerConnection*, 64> recent_{};
};

}  // namespace weft
