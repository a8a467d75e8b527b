// bond: several interfaces as one. Notices to a peer are spread over all paths that reach the peer.
// A path is one interface of ours and one of the peer's. When a path fails or grows slow, its
// notices travel on the others.
//
// Spreading. Every notice of a channel has a number (WireHeader::stamp). A notice is posted on the
// path that will deliver it first, judged by what each path carried lately and by what it still has
// to carry. So fast paths take more, and a path takes nothing that another would deliver sooner.
// The receiver takes notices in the order of their numbers, from whichever path has the next one.
//
// Giving up. A path is given up when it has failed, when its link is down, when it is silent while
// another path answers, or when it has grown slow. The sender says so over a live path (*fence*).
// The receiver takes what has arrived completely on the path that was given up, takes nothing from
// it later, and answers how many notices it took there. The sender posts the rest again on other
// paths. So every notice arrives exactly once, whatever the dead path still delivers.
//
// The last live path is never given up for silence or slowness.
//
// Coming back. A path that was given up is connected again after a while, and takes pieces again
// once it is proven. When the last live path fails, those on which nothing failed are connected
// again at once. The peer is failed if none of them has come back in 10 * return_ms, or none can.
// Ports that names have paired and that do not reach each other are exchanged for others.
//
// One-sided work to a peer stays on one path while any of it is under way, because order holds on
// one path only. If that path fails, the work under way completes with the failure. Work that is
// posted after poll() has returned this completion takes another path.
//
// If a peer shares our memory, or if names leave only one pair of ports to it, connect() returns
// that member's own endpoint: no numbering, no copies. Threads and lifetime as in transport.h;
// members live as long as the bond.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft {

// One interface of the bond.
struct BondMember {
  // Only members of the same kind ("ib", "ucx") make a path. Two ranks use one kind only, the first
  // that both have, because the other kinds would use the same wires.
  std::string kind;
  // Members whose rails have the same name may reach each other; if no names agree, all may. If
  // several members may, they are paired by the names of their devices, then in their order. Pairs
  // that turn out not to reach each other are replaced by others.
  std::string rail;
  std::function<Result<std::unique_ptr<Interface>>(AddressResolver resolver)> open;
  // The NUMA node for the memory that the member shares with peers or with its card; -1: wherever
  // the kernel puts it. The kernel may refuse the node.
  int node = -1;
  std::string device{};  // the interface's name; empty: not known
};

struct BondOptions {
  Rank rank = 0;
  std::uint32_t channels = 9;        // as the members'
  std::uint32_t slots = 4;           // as the members'
  std::size_t payload_bytes = 4032;  // as the members'
  // If a path has carried nothing for so long although it should, it is asked whether it still
  // works. If it does not answer for as long again, while another path does, it is given up.
  std::int64_t silence_ms = 500;
  // A path that carries less than slow_share of its own earlier rate, and of another path's present
  // rate, for slow_ms is given up. Shared ports and crowded switches do not slow a rail down to a
  // sixteenth, and a rail that far behind the others would be given nothing anyway.
  double slow_share = 1.0 / 16;
  std::int64_t slow_ms = 2000;
  // A path that was given up is tried again after so long, if its interface has a link.
  std::int64_t return_ms = 1000;
  std::int64_t (*clock)() = now_ns;  // nanoseconds; tests give one of their own
  std::string no_networks;           // why there are none, for errors
  // Called for each network that cannot be opened, with its place in the list; the bond then does
  // without it, because interfaces that no user named may be gone since they were found. Opening
  // the bond still fails if the reason is not `unavailable` (for example, too little memory may be
  // pinned), or if no network is left. Null: each network has to open.
  std::function<void(std::size_t network, const Status& why)> left_out = nullptr;
};

// Opens all members. `memory` may be null; else it is tried first for every peer, as ranks of one
// machine share memory. connect() to a peer that no member reaches is `unavailable`, with each
// member's reason in the text.
[[nodiscard]] Result<std::unique_ptr<Interface>> open_bond(const BondOptions& options,
                                                           const BondMember* memory,
                                                           std::vector<BondMember> networks,
                                                           AddressResolver resolver);

// The part of a bond's address that is its shared memory's; empty if it has none.
[[nodiscard]] Result<std::string> memory_address(std::string_view bond_address);
// A bond's address without that part: who connects to it uses networks, also to a rank that shares
// our memory, or to ourselves.
[[nodiscard]] Result<std::string> network_address(std::string_view bond_address);

}  // namespace weft
