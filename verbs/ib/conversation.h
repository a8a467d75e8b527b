// Conversation: the protocol by which two interfaces connect their queue pairs. Both send
// Greetings, which are datagrams that may be lost or come twice, until both know of each other.
// They send them over those pairs of addresses that may reach the peer, which also proves which
// pair works.
//
// The interface with the smaller nonce leads.
//  1. Both ask (`asking`), over one candidate pair after the other.
//  2. The leader takes the pair over which it first hears from the other, connects its queue pairs
//     and says `ready` over that pair.
//  3. The other connects by the same pair and says `ready` back. The pair has then carried
//     datagrams both ways and stays: the leader says `confirmed`.
//  4. An interface that is confirmed may send. Every greeting of a level below `confirmed` is
//     answered, so a lost datagram only costs a repetition.
//
// If the leader's pair works in one direction only, the other's `ready` does not come, but its
// questions still come over other pairs. The leader then chooses the pair of the next question and
// counts its choice up. Nothing has been sent yet, so both connect their queue pairs anew.
//
// RoCE v2 comes before v1, which no router forwards. Looking up neighbors may hold v2 up and not v1, so
// the leader takes no pair of v1 before the other has asked over all of its pairs, unless it has no pair of v2.
//
// This object has no device, clock or memory: greetings and times come in, and a Side is asked for
// what needs a device. One lane owns it, within its IbEndpoint.
// Invariants: level() never falls but for a new choice of the leader; choice() never falls; after
// `confirmed` neither the pair nor the choice changes. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "verbs/device/device.h"
#include "verbs/ib/layout.h"

namespace weft::ib {

// A pair of addresses as it is set in a route: one of ours, and one of the peer's.
struct RoutePair {
  int gid_index = -1;  // of ours; -1: there is no pair yet
  GidKind kind = GidKind::infiniband;
  GidBytes own{};
  GidBytes peer{};
  bool operator==(const RoutePair&) const = default;
};

// Where the peer's greetings are sent to, beside the address.
struct PeerPort {
  std::uint32_t datagrams = 0;  // its queue pair for them
  std::uint16_t lid = 0;
};

class Conversation {
 public:
  // What the protocol needs of the owner of the device. Called only from within send_due() and
  // take().
  class Side {
   public:
    virtual ~Side() = default;
    // The pair, seen from our side, on which the greeting came.
    [[nodiscard]] virtual RoutePair route_back(const Greeting& greeting) const = 0;
    // Whether datagrams can be sent along the pair. False: its neighbor is being looked up.
    virtual Result<bool> knows_way(const RoutePair& pair, const PeerPort& port) = 0;
    // Sends a greeting with the conversation's level, choice and pair. False: as for knows_way().
    virtual Result<bool> greet() = 0;
    // Connects the queue pairs to those that the greeting names, along the conversation's pair.
    // `anew`: they were connected before, and nothing was sent.
    [[nodiscard]] virtual Status connect(const Greeting& greeting, bool anew) = 0;
    // Both ends are connected: sending begins.
    virtual void confirmed() = 0;
    // The queue pairs cannot be connected.
    virtual void fail(const Status& why) = 0;
    // The path has failed or the peer has closed: there is nothing more to say.
    [[nodiscard]] virtual bool is_over() const = 0;
    virtual void warn(const Status& status) = 0;
  };

  // The nonces of the two interfaces; they are equal where an interface talks to itself.
  Conversation(Side& side, std::uint64_t own, std::uint64_t peer)
      : side_(side), leads_(own <= peer) {}

  // The pairs that may reach the peer, best first. They may change as addresses come and go. A
  // stranger has none: it is answered over the pair on which its greeting came.
  void set_candidates(std::vector<RoutePair> candidates) { candidates_ = std::move(candidates); }
  [[nodiscard]] const std::vector<RoutePair>& candidates() const { return candidates_; }
  void set_port(const PeerPort& port) { port_ = port; }

  // Sends the greeting that is due, if any.
  void send_due(std::int64_t now);
  void take(const Greeting& greeting, std::int64_t now);
  // An interface connects to itself, by a pair of its own and a greeting of its own.
  void connect_to_self(const RoutePair& pair, const Greeting& own);
  // Something has come over the queue pairs. A peer sends there only after it was confirmed, so
  // this end is confirmed, too, even if that datagram was lost.
  void confirm();

  // A greeting that came before the way back was known; taken by the next send_due() unless
  // dropped.
  [[nodiscard]] const std::optional<Greeting>& waiting() const { return waiting_; }
  void drop_waiting() { waiting_.reset(); }

  [[nodiscard]] Level level() const { return level_; }
  [[nodiscard]] bool is_confirmed() const { return level_ == Level::confirmed; }
  [[nodiscard]] std::uint32_t choice() const { return choice_; }
  // In use, or being tried.
  [[nodiscard]] const RoutePair& pair() const { return pair_; }
  [[nodiscard]] const PeerPort& port() const { return port_; }
  // When send_due() has something to say again.
  [[nodiscard]] std::int64_t next_ns() const { return next_ns_; }

 private:
  [[nodiscard]] bool may_answer(const Greeting& greeting);
  void answer_along(const Greeting& greeting);
  [[nodiscard]] bool is_early(const Greeting& greeting);
  [[nodiscard]] bool gives_up_for(const Greeting& greeting);
  [[nodiscard]] bool join(const Greeting& greeting, bool anew);
  [[nodiscard]] bool move_on(const Greeting& greeting);
  void greet(std::int64_t now);

  Side& side_;
  bool leads_;
  Level level_ = Level::asking;  // what we say of ourselves
  std::uint32_t choice_ = 0;     // how often the leader chose another pair
  RoutePair pair_;
  PeerPort port_;
  std::vector<RoutePair> candidates_;
  std::vector<RoutePair> refuted_;  // pairs that the leader chose before
  std::vector<RoutePair> early_;    // of RoCE v1, one for each question over it
  std::uint32_t attempts_ = 0;      // greetings since the level or the choice changed
  std::int64_t next_ns_ = 0;
  // Time in ns since which a greeting waits for its route to be resolved; 0 if none waits.
  std::int64_t unsent_ns_ = 0;
  std::optional<Greeting> waiting_;
};

}  // namespace weft::ib
