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

// The address of the peer's interface that our `member` is paired with.
Result<std::string> BondInterface::address_for(std::size_t member, Rank peer) {
  WEFT_ASSIGN(const std::string whole, resolver_(peer));
  WEFT_ASSIGN(BondAddress theirs, decode(whole, peer));
  const bool low = options_.rank < peer;
  const BondAddress ours = own_address();
  for (const auto& [l, h] : low ? pair_members(ours, theirs) : pair_members(theirs, ours)) {
    if ((low ? l : h) == member) return std::move(theirs.networks[low ? h : l].address);
  }
  return Status(Code::mismatch,
                fmt::format("rank {} spoke on {}, which has no rail to it", peer,
                            networks_[member].interface->name()),
                peer);
}

// Memory first. That a peer is on another machine is the one reason to go by network; any other
// error of the shared memory is told instead of taking a slower way in silence.
Result<Endpoint*> BondInterface::connect(Rank peer, std::string_view address) {
  WEFT_ASSIGN(const BondAddress theirs, decode(address, peer));
  std::string reasons;
  if (memory_ && !theirs.memory.empty()) {
    const MemoryPreference beside(memory_node_);
    Result<Endpoint*> connected = memory_->connect(peer, theirs.memory);
    if (connected.ok() || connected.status().code() != Code::unavailable) return connected;
    reasons = fmt::format("{}: {}", memory_->name(), connected.status().text());
  }
  return connect_networks(peer, address, theirs, std::move(reasons));
}

Result<Endpoint*> BondInterface::connect_networks(Rank peer, std::string_view address,
                                                  const BondAddress& theirs, std::string reasons) {
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
  const bool low = options_.rank < peer;
  const BondAddress ours = own_address();
  std::vector<Path> paths;
  for (const auto& [l, h] : low ? pair_members(ours, theirs) : pair_members(theirs, ours)) {
    const Member& member = networks_[low ? l : h];
    Interface& interface = *member.interface;
    const MemoryPreference beside(member.node);
    Result<Endpoint*> connected = interface.connect(peer, theirs.networks[low ? h : l].address);
    if (!connected.ok()) {
      // Both ranks must number the same paths, so one that cannot be made is an error and no
      // detour.
      add_reason(interface.name(), connected.status().text());
      return Status(connected.status().code(),
                    fmt::format("no path to rank {} ({})", peer, reasons), peer);
    }
    Path& path = paths.emplace_back();
    path.interface = &interface;
    path.endpoint = *connected;
    path.address = theirs.networks[low ? h : l].address;
    path.rail = member.rail;
    path.member = static_cast<int>(low ? l : h);
    path.peer_member = static_cast<int>(low ? h : l);
    path.node = member.node;
  }
  if (paths.empty()) {
    return Status(Code::unavailable, fmt::format("no path to rank {} ({})", peer, reasons), peer);
  }
  if (paths.size() == 1) return paths[0].endpoint;
  std::unique_ptr<BondEndpoint>& known = endpoints_[peer];
  if (known) replaced_.push_back(std::move(known));
  for (const Path& path : paths) owners_.erase(path.endpoint);
  known = std::make_unique<BondEndpoint>(*this, peer, std::string(address), std::move(paths));
  for (const Path& path : known->paths()) owners_.emplace(path.endpoint, known.get());
  return known.get();
}

}  // namespace bond
}  // namespace weft
