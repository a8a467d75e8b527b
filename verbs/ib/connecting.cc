// How an endpoint connects: where its peer may be, and what the conversation needs of the device.
#include <fmt/core.h>

#include <algorithm>

#include "verbs/ib/endpoint.h"
#include "verbs/ib/interface.h"

namespace weft::ib {

// Makes queue pairs that are not connected yet, and the memory that every connection needs.
Status IbEndpoint::prepare() {
  if (receiver_.reserve() == 0) {
    return Status(Code::exhausted,
                  fmt::format("{}: its receive queue has no place for rank {}: raise "
                              "WEFT_IB_RECEIVE_DEPTH (16 for each peer at least) or lower "
                              "WEFT_CHANNELS and WEFT_RAIL_SLOTS",
                              interface_.name(), peer()),
                  peer());
  }
  WEFT_ASSIGN(scratch_, interface_.make_buffer(sizeof(Scratch),
                                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  return queues_.open();
}

// Which address pairs may reach the peer, best first; the first one that brings an answer is used.
Status IbEndpoint::resolve_addresses(const Address& address) {
  set_peer_gids(address);
  rank_pairs();
  conversation_.set_port({address.datagrams, address.lid});
  if (!conversation_.candidates().empty()) return {};
  return Status(Code::unavailable,
                fmt::format("{}: none of its addresses (GIDs) is of a kind that rank {} has, too",
                            interface_.name(), peer()),
                peer());
}

void IbEndpoint::set_peer_gids(const Address& address) {
  peer_gids_.assign(address.gids.begin(), address.gids.begin() + address.gid_count);
}

void IbEndpoint::rank_pairs() {
  std::vector<GidAddress> theirs;
  for (const WireGid& gid : peer_gids_)
    theirs.push_back({gid.bytes, static_cast<GidKind>(gid.kind), gid.prefix_bits});
  std::vector<RoutePair> candidates;
  for (const GidPair& pair : rank_gid_pairs(interface_.gids(), theirs)) {
    const RdmaGid& own = interface_.gids()[static_cast<std::size_t>(pair.local)];
    const GidBytes& peer = peer_gids_[static_cast<std::size_t>(pair.remote)].bytes;
    if (pair.score >= 0) candidates.push_back({own.index, own.kind, own.bytes, peer});
  }
  conversation_.set_candidates(std::move(candidates));
}

void IbEndpoint::take_addresses_of(const IbEndpoint& failed) {
  peer_gids_ = failed.peer_gids_;
  rank_pairs();
  conversation_.set_port(failed.conversation_.port());
  prefer_pair_of(failed);
}

void IbEndpoint::prefer_pair_of(const IbEndpoint& failed) {
  if (!failed.connected_) return;
  std::vector<RoutePair> candidates = conversation_.candidates();
  const auto worked = std::ranges::find(candidates, failed.conversation_.pair());
  if (worked == candidates.end()) return;
  std::rotate(candidates.begin(), worked, std::next(worked));
  conversation_.set_candidates(std::move(candidates));
}

// A greeting may have waited until its way back was known. It is dropped if the path has failed or
// the interface was closed meanwhile, or if it is not meant for us any more.
void IbEndpoint::send_due(std::int64_t now) {
  const auto& waiting = conversation_.waiting();
  if (waiting && (!failure_.ok() || interface_.closed() || !interface_.meant_for_us(*waiting)))
    conversation_.drop_waiting();
  if (nonce_ != interface_.nonce()) return conversation_.send_due(now);
  if (!connecting()) return;
  const RdmaGid& own = interface_.gids().front();
  conversation_.connect_to_self({own.index, own.kind, own.bytes, own.bytes},
                                introduction(Level::ready));
}

void IbEndpoint::take_greeting(const Greeting& greeting) {
  if (!failure_.ok()) return;
  if (greeting.level == Level::closed) return peer_closed_.store(true, std::memory_order_release);
  conversation_.take(greeting, now_ns());
}

RoutePair IbEndpoint::route_back(const Greeting& greeting) const {
  const auto kind = static_cast<GidKind>(greeting.kind);
  return {interface_.gid_index_of(greeting.receiver, kind), kind, greeting.receiver,
          greeting.sender};
}

Result<bool> IbEndpoint::knows_way(const RoutePair& pair, const PeerPort& port) {
  WEFT_ASSIGN(ibv_ah* const handle,
              interface_.routes().find({pair.gid_index, port.lid, pair.own, pair.peer}));
  return handle != nullptr;
}

// A greeting for the peer, along the pair of addresses that we use.
Greeting IbEndpoint::addressed(Level level) const {
  const RoutePair& pair = conversation_.pair();
  Greeting greeting = interface_.new_greeting();
  greeting.level = level;
  greeting.to = nonce_;
  greeting.incarnation = incarnation_;
  greeting.choice = conversation_.choice();
  greeting.sender = pair.own;
  greeting.receiver = pair.peer;
  greeting.kind = static_cast<std::uint8_t>(pair.kind);
  return greeting;
}

Greeting IbEndpoint::introduction(Level level) const {
  Greeting greeting = addressed(level);
  queues_.describe(greeting);
  greeting.window = receiver_.granted();
  greeting.words = scratch_.address();
  greeting.words_key = scratch_.rkey();
  return greeting;
}

Result<bool> IbEndpoint::send(const Greeting& greeting) {
  const PeerPort& port = conversation_.port();
  return interface_.send_greeting(greeting, conversation_.pair().gid_index, port.datagrams,
                                  port.lid);
}

Result<bool> IbEndpoint::greet() {
  return send(introduction(conversation_.level()));
}

// This goes to the addresses that were used last. If the peer speaks from others, greeted_by()
// answers it there.
void IbEndpoint::say_dropped() {
  if (conversation_.pair().gid_index < 0 || interface_.closed()) return;
  (void)send(addressed(Level::dropped));
}

Status IbEndpoint::connect(const Greeting& greeting, bool anew) {
  const RoutePair& pair = conversation_.pair();
  const ibv_ah_attr route = interface_.route(pair.gid_index, pair.peer, conversation_.port().lid);
  WEFT_RETURN_IF_ERROR(queues_.connect(greeting, route, anew));
  sender_.set_peer(greeting);
  return {};
}

void IbEndpoint::confirmed() {
  connected_ = true;
  interface_.pump_later(*this);
}

void IbEndpoint::warn(const Status& status) {
  interface_.warn_once(status);
}

}  // namespace weft::ib
