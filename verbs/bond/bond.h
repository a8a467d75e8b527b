// bond: several interfaces as one. Pieces to a peer are spread over all rails that reach it; when a
// rail fails or grows slow its pieces travel on the others.
//
// Every notice of a channel has a number (WireHeader::stamp) and is posted on the path that will
// deliver it first, by what each path carried lately and what it still has to carry. So fast rails
// take more, and a rail takes nothing that another would deliver sooner. The receiver takes notices
// by number from whichever path has the next one.
//
// A path that is given up (it failed, its link is down, it is silent while another answers, or it
// has grown slow) is *fenced*: the sender says so over a live path, the receiver takes what has arrived whole, looks
// at that path never again and answers how much it took; only the rest is posted once more. So
// every notice arrives exactly once, whatever the dead path still delivers.
//
// A path has grown slow when, for `slow_ms` and in half of that time with pieces under way, it
// carried less than `slow_share` of what it had carried for long and of what another path carries,
// although there was enough to carry; and when it still does after the peer answered over another
// path. So rails that are unequal by nature are left alone, as are paths with little to do, and a
// receiver that is slow to take is blamed on no path. The last path that lives is never given up
// for silence or slowness.
//
// A path returns: its interface connects again, a probe goes there and its echo comes back, and once
// the peer has said what it took before, the path takes pieces again. Each time is another
// generation of the path, so that a late word about an earlier one changes nothing. One that is slow
// or silent again soon after its return waits twice as long the next time, at most 64 * return_ms;
// when it has held for that long all is forgotten. An end that finds a path connected anew by its
// peer does not wait.
//
// So a path that was only slow or silent is a reserve. When the last one that lives fails, is silent
// or has no link, those that wait connect again at once, and the peer is failed if none has come back
// in 10 * return_ms, or none can.
//
// Names do not always tell which ports reach each other. A path that was never connected is led over
// other ports, as soon as some are found that do (ports.cc); the peer sees a path that comes back.
//
// A peer that shares our memory, or to which names leave one pair of ports alone, has the member's
// own endpoint: no numbering, no copies. Threads and lifetime as in transport.h; members live as long
// as the bond.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft {

// One interface of the bond.
struct BondMember {
  // Only members of the same kind ("ib", "ucx") make a path. Two ranks use one kind, the first of
  // those that both have: others would share its wires.
  std::string kind;
  // Members whose rails have the same name may reach each other; where no names agree, all may.
  // Several are paired by the names of their devices, then in their order, and otherwise where these
  // turn out not to reach each other.
  std::string rail;
  std::function<Result<std::unique_ptr<Interface>>(AddressResolver resolver)> open;
  // The NUMA node for the memory that it shares with peers or its card; -1: wherever the kernel puts
  // it. A wish: the kernel may refuse it.
  int node = -1;
  std::string device{};  // the interface's name; empty: not told
};

struct BondOptions {
  Rank rank = 0;
  std::uint32_t channels = 9;        // as the members'
  std::uint32_t slots = 4;           // as the members'
  std::size_t payload_bytes = 4032;  // as the members'
  // A path that carried nothing for so long although it should is asked whether it still works; as
  // long again, and it is given up.
  std::int64_t silence_ms = 500;
  // A path that carries less than this share of its own earlier rate and of another path's present
  // one for so long is given up. A sixteenth is beyond what ports shared with others or crowded
  // switches do to a rail, and a rail that far behind the others would be given nothing anyway.
  double slow_share = 1.0 / 16;
  std::int64_t slow_ms = 2000;
  // After so long a path that was given up is tried again, as long as its interface has a link.
  std::int64_t return_ms = 1000;
  std::int64_t (*clock)() = now_ns;  // nanoseconds; tests give one of their own
  std::string no_networks;           // why there are none, for errors
  // Told of each network that cannot be opened, by its place in the list, which the bond then does
  // without: interfaces that nobody named may be gone since they were found. What is not `unavailable`
  // (too little may be pinned) is an error all the same, as is it if no network is left. Null: each
  // has to open.
  std::function<void(std::size_t network, const Status& why)> left_out = nullptr;
};

// Opens all members. `memory` is asked first for every peer (ranks of one machine share it); may be
// null. A peer whose address none of the members can connect to is `unavailable`, each member's
// reason in the text.
[[nodiscard]] Result<std::unique_ptr<Interface>> open_bond(const BondOptions& options,
                                                           const BondMember* memory,
                                                           std::vector<BondMember> networks,
                                                           AddressResolver resolver);

// The part of a bond's address that is its shared memory's; empty if it has none.
[[nodiscard]] Result<std::string> memory_address(std::string_view bond_address);

}  // namespace weft
