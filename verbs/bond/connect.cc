// Opening a bond, and finding the paths to a peer. No step needs the peer's help.
#include <fmt/core.h>

#include "verbs/bond/interface.h"
#include "verbs/memory/memory.h"

namespace weft {

Result<std::unique_ptr<Interface>> open_bond(const BondOptions& options, const BondMember* memory,
                                             std::vector<BondMember> networks,
                                             AddressResolver resolver) {
  return bond::BondInterface::open(options, memory, std::move(networks), std::move(resolver));
}

Result<std::string> memory_address(std::string_view bond_address) {
  WEFT_ASSIGN(bond::BondAddress address, bond::decode(bond_address, kNoRank));
  return std::move(address.memory);
}

Result<std::string> network_address(std::string_view bond_address) {
  WEFT_ASSIGN(bond::BondAddress address, bond::decode(bond_address, kNoRank));
  address.memory.clear();
  return bond::encode(address);
}

namespace bond {

Result<std::unique_ptr<Interface>> BondInterface::open(const BondOptions& options,
                                                       const BondMember* memory,
                                                       std::vector<BondMember> networks,
                                                       AddressResolver resolver) {
  if (networks.size() > kMostMembers) {
    return Status(Code::invalid_argument, fmt::format("a bond of {} interfaces; at most {}",
                                                      networks.size(), kMostMembers));
  }
  if (sizeof(PathNote) + options.channels * sizeof(std::uint64_t) > kControlBytes) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} channels are more than a bond can fence: at most {}", options.channels,
                    (kControlBytes - sizeof(PathNote)) / sizeof(std::uint64_t)));
  }
  std::unique_ptr<BondInterface> bond(new BondInterface(options, std::move(resolver)));
  BondInterface* raw = bond.get();
  if (memory != nullptr) {
    const MemoryPreference beside(memory->node);
    bond->memory_node_ = memory->node;
    WEFT_ASSIGN(bond->memory_, memory->open([raw](Rank peer) -> Result<std::string> {
      WEFT_ASSIGN(const std::string whole, raw->resolver_(peer));
      return weft::memory_address(whole);
    }));
    bond->name_ = bond->memory_->name();
    bond->piece_bytes_ = bond->memory_->piece_bytes();
  }
  WEFT_RETURN_IF_ERROR(bond->open_networks(std::move(networks)));
  return std::unique_ptr<Interface>(std::move(bond));
}

// A member's number is its place among those that opened.
Status BondInterface::open_networks(std::vector<BondMember> networks) {
  const auto left_out = std::exchange(options_.left_out, nullptr);
  Status first;  // of those left out
  for (std::size_t k = 0; k < networks.size(); ++k) {
    const MemoryPreference beside(networks[k].node);
    Result<std::unique_ptr<Interface>> opened = networks[k].open(
        [this, own = networks_.size()](Rank peer) { return address_for(own, peer); });
    if (!opened.ok()) {
      if (!left_out || opened.status().code() != Code::unavailable) return opened.status();
      if (first.ok()) first = opened.status();
      left_out(k, opened.status());
      continue;
    }
    Interface& interface = **opened;
    if (!name_.empty()) name_ += '+';
    name_ += interface.name();
    const std::size_t most = interface.piece_bytes();
    piece_bytes_ = networks_.empty() ? most : std::min(piece_bytes_, most);
    networks_.push_back({std::move(networks[k].kind), std::move(networks[k].rail),
                         *std::move(opened), networks[k].node, std::move(networks[k].device),
                         Status{}});
  }
  return networks_.empty() ? first : Status();
}

BondInterface::BondInterface(const BondOptions& options, AddressResolver resolver)
    : options_(options), resolver_(std::move(resolver)) {}

BondAddress BondInterface::own_address() const {
  BondAddress address;
  if (memory_) address.memory = memory_->address();
  for (const Member& member : networks_)
    address.networks.push_back(
        {member.kind, member.rail, member.interface->address(), member.device});
  return address;
}

std::string BondInterface::address() const {
  return encode(own_address());
}

// The address of the peer's interface that has spoken to our `member`: the one it is paired with,
// or another that the peer tries.
Result<std::string> BondInterface::address_for(std::size_t member, Rank peer) {
  WEFT_ASSIGN(const std::string whole, resolver_(peer));
  WEFT_ASSIGN(const BondAddress theirs, decode(whole, peer));
  const auto own = static_cast<int>(member);
  for (const Ports& ports : ports_to(peer, theirs, other_pairs)) {
    if (ports.member == own && ports.interface->heard_from(peer, ports.address) != nullptr)
      return ports.address;
  }
  for (const Ports& ports : ports_to(peer, theirs, pair_members)) {
    if (ports.member == own) return ports.address;
  }
  return Status(Code::mismatch,
                fmt::format("rank {} spoke on {}, which has no rail to it", peer,
                            networks_[member].interface->name()),
                peer);
}

std::vector<Ports> BondInterface::ports_to(Rank peer, const BondAddress& theirs,
                                           Pairs pairs) const {
  const bool is_low = options_.rank < peer;
  const BondAddress ours = own_address();
  std::vector<Ports> found;
  for (const auto& [low, high] : is_low ? pairs(ours, theirs) : pairs(theirs, ours)) {
    const std::size_t own = is_low ? low : high;
    const std::size_t other = is_low ? high : low;
    const Member& member = networks_[own];
    const MemberAddress& there = theirs.networks[other];
    found.push_back({member.interface.get(), there.address, member.rail, static_cast<int>(own),
                     static_cast<int>(other),
                     there.device.empty() ? fmt::format("interface {}", other) : there.device,
                     member.node});
  }
  return found;
}

std::vector<Ports> BondInterface::ports_to_try(Rank peer, const BondAddress& theirs) const {
  std::vector<Ports> found = ports_to(peer, theirs, other_pairs);
  for (Ports& ports : ports_to(peer, theirs, pair_members)) found.push_back(std::move(ports));
  std::erase_if(found, [](const Ports& ports) { return !ports.interface->reconnects(); });
  return found;
}

// Shared memory is tried first. A network is used only if shared memory is `unavailable`, for
// example because the peer is on another machine. Any other error of the shared memory is returned,
// instead of taking a slower way in silence.
Result<Endpoint*> BondInterface::connect(Rank peer, std::string_view address) {
  WEFT_ASSIGN(const BondAddress theirs, decode(address, peer));
  std::string reasons;
  if (memory_ && !theirs.memory.empty()) {
    const MemoryPreference beside(memory_node_);
    Result<Endpoint*> connected = memory_->connect(peer, theirs.memory);
    if (connected.ok() || connected.status().code() != Code::unavailable) return connected;
    reasons = fmt::format("{}: {}", memory_->name(), connected.status().text());
  }
  return connect_networks(peer, theirs, std::move(reasons));
}

// A peer's whole address and that of its networks alone (network_address()) lead to one endpoint. Of
// two endpoints over the same paths, only the newer one would be looked after: what the older one
// had posted on a path that fails would never be posted again.
Result<Endpoint*> BondInterface::connect_networks(Rank peer, const BondAddress& theirs,
                                                  std::string reasons) {
  BondAddress of_networks = theirs;
  of_networks.memory.clear();
  const std::string address = encode(of_networks);
  const auto found = endpoints_.find(peer);
  if (found != endpoints_.end() && found->second->address() == address) return found->second.get();
  const auto add_reason = [&reasons](std::string_view name, std::string_view text) {
    if (!reasons.empty()) reasons += "; ";
    reasons += fmt::format("{}: {}", name, text);
  };
  if (networks_.empty()) {
    add_reason("network", options_.no_networks.empty() ? "this rank has no network interface"
                                                       : options_.no_networks);
  }
  if (theirs.networks.empty()) add_reason("network", "that rank has no network interface");
  std::vector<Path> paths;
  for (Ports& ports : ports_to(peer, theirs, pair_members)) {
    Path& path = paths.emplace_back(std::move(ports), paths.size());
    const MemoryPreference beside(path.node);
    Result<Endpoint*> connected = path.interface->connect(peer, path.address);
    if (!connected.ok()) {
      // Both ranks must number the same paths, so a path that cannot be made is an error and is not
      // left out.
      add_reason(path.interface->name(), connected.status().text());
      return Status(connected.status().code(),
                    fmt::format("no path to rank {} ({})", peer, reasons), peer);
    }
    path.endpoint = *connected;
    path.endpoint->set_peer_member(path.peer_member);
  }
  if (paths.empty()) {
    return Status(Code::unavailable, fmt::format("no path to rank {} ({})", peer, reasons), peer);
  }
  // If there is one path, its own endpoint is enough, unless the path may have to move to other
  // ports.
  if (paths.size() == 1 && ports_to_try(peer, theirs).size() < 2) return paths[0].endpoint;
  std::unique_ptr<BondEndpoint>& known = endpoints_[peer];
  if (known) {
    known->be_replaced();
    replaced_.push_back(std::move(known));
  }
  for (const Path& path : paths) owners_.erase(path.endpoint);
  known = std::make_unique<BondEndpoint>(*this, address, std::move(paths));
  answers_peers_ = true;
  for (const Path& path : known->paths()) owners_.emplace(path.endpoint, known.get());
  return known.get();
}

}  // namespace bond
}  // namespace weft
