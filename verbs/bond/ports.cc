// Ports that do not reach each other. Names alone paired them, so both work and hear nothing: the rank
// with the smaller number tries others for paths that were never connected, and the first pair over
// which the peer answers takes the place of one that does not. To the peer the path comes back over
// other ports, by the same notes as every path that comes back; what either had posted on it is
// fenced and posted again.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/bond/interface.h"
#include "verbs/memory/memory.h"

namespace weft::bond {
namespace {

// So many times silence_ms before others are tried, and for each trial: a neighbor may have to be
// looked up, and beside one that is not there that takes a second.
constexpr std::int64_t kPatience = 4;
constexpr std::size_t kMostTrials = 16;

}  // namespace

bool BondInterface::add_trial() {
  if (trials_ == kMostTrials) return false;
  ++trials_;
  return true;
}

bool BondEndpoint::tries_ports() const {
  return bond_.options().rank < peer_;
}

void BondEndpoint::look_for_ports(std::int64_t now) {
  for (Path& path : paths_) path.joined |= path.endpoint->connected();
  if (!failure_.ok() || std::ranges::all_of(paths_, &Path::joined)) {
    return end_trials();
  }
  const bool is_first = round_until_ns_ == 0;
  if (is_first || now >= round_until_ns_) {
    round_until_ns_ = now + kPatience * bond_.options().silence_ms * 1'000'000;
    if (!is_first) begin_round();
  }
  for (SparePorts& spare : spares_) judge_trial(spare, now);
  if (!tries_ports()) follow_ports(now);
}

void BondEndpoint::end_trials() {
  for (SparePorts& spare : spares_) end_trial(spare);
  spares_.clear();
}

void BondEndpoint::find_spares() {
  if (!spares_.empty()) return;
  const Result<BondAddress> theirs = decode(address_, peer_);
  if (!theirs.ok()) return;
  for (Ports& ports : bond_.ports_to(peer_, *theirs, other_pairs))
    spares_.push_back({std::move(ports)});
}

// Those of a path that was connected once are its own for good: a path that failed comes back, and
// the ports that it was paired with belong to no other.
bool BondEndpoint::are_free(const Ports& ports) const {
  return std::ranges::none_of(paths_, [&ports](const Path& path) {
    return path.joined && (path.member == ports.member || path.peer_member == ports.peer_member);
  });
}

// In a round each port has one other to try, and after as many rounds as ports each had every one.
// Rounds that have nothing to try take no time.
void BondEndpoint::begin_round() {
  find_spares();
  if (!tries_ports()) return;
  bool tries = false;
  for (std::size_t k = 0; k < kMostMembers && !tries; ++k) {
    round_ = (round_ + 1) % kMostMembers;
    for (SparePorts& spare : spares_) {
      const auto apart = static_cast<std::size_t>(spare.ports.peer_member - spare.ports.member);
      if (spare.connected_ns != 0) continue;
      end_trial(spare);
      if (apart % kMostMembers == round_ && are_free(spare.ports)) tries |= begin_trial(spare);
    }
  }
}

bool BondEndpoint::begin_trial(SparePorts& spare) {
  if (!bond_.link_of(*spare.ports.interface).ok()) return false;
  if (!bond_.add_trial()) return false;
  const MemoryPreference beside(spare.ports.node);
  const Result<Endpoint*> tried = spare.ports.interface->reconnect(peer_, spare.ports.address);
  if (tried.ok())
    spare.trial = *tried;
  else
    bond_.drop_trial();
  return tried.ok();
}

// A peer that was slow to start may answer here a moment before it does where it should.
void BondEndpoint::judge_trial(SparePorts& spare, std::int64_t now) {
  if (spare.trial == nullptr) return;
  if (!spare.trial->failure().ok() || !are_free(spare.ports)) return end_trial(spare);
  if (!spare.trial->connected()) return;
  if (spare.connected_ns == 0) spare.connected_ns = now;
  if (now - spare.connected_ns < bond_.options().silence_ms * 1'000'000) return;
  lead_over(path_to_lead(spare.ports), spare, *spare.trial, now);
}

Endpoint* BondEndpoint::take_trial(SparePorts& spare) {
  spare.connected_ns = 0;
  if (spare.trial != nullptr) bond_.drop_trial();
  return std::exchange(spare.trial, nullptr);
}

void BondEndpoint::end_trial(SparePorts& spare) {
  Endpoint* const trial = take_trial(spare);
  if (trial == nullptr) return;
  trial->abandon(Status(Code::unavailable, "these ports were only tried", peer_));
  spare.ports.interface->forget(*trial);
}

// The peer says first what path it leads here. It had time to see that the old ports do not reach
// each other, so this is not asked again.
void BondEndpoint::follow_ports(std::int64_t now) {
  if (!failure_.ok()) return;
  for (SparePorts& spare : spares_) {
    Endpoint* const heard = spare.ports.interface->heard_from(peer_, spare.ports.address);
    if (heard == nullptr) continue;
    const Notice notice = heard->front(kControlChannel);
    PathNote note;
    if (notice.header->kind != NoticeKind::path || notice.header->bytes < sizeof note) continue;
    std::memcpy(&note, notice.payload, sizeof note);
    if (note.what != PathNote::What::probe || note.path >= paths_.size()) continue;
    const Result<Endpoint*> given = spare.ports.interface->connect(peer_, spare.ports.address);
    if (given.ok()) lead_over(note.path, spare, **given, now);
  }
}

// Of those that were never connected the one that has most in common with these ports.
std::size_t BondEndpoint::path_to_lead(const Ports& ports) const {
  const auto likeness = [&](std::size_t p) {
    if (paths_[p].member == ports.member) return 3;
    if (paths_[p].peer_member == ports.peer_member) return 2;
    return paths_[p].rail == ports.rail ? 1 : 0;
  };
  std::size_t most = kNowhere;
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (!paths_[p].joined && (most == kNowhere || likeness(p) > likeness(most))) most = p;
  }
  return most;
}

// As if the path had been given up without a fault and were sought by the peer. Where something that
// came over it is looked at just now, it is led elsewhere a little later.
void BondEndpoint::lead_over(std::size_t index, SparePorts& spare, Endpoint& endpoint,
                             std::int64_t now) {
  Path& path = paths_[index];
  const Status why(
      Code::unavailable,
      fmt::format("{} does not reach {} of rank {}", path.interface->name(), path.peer_name, peer_),
      peer_);
  path.endpoint->abandon(why);
  path.live = path.returning = path.proven = false;
  path.stands = true;
  path.tried_ns = now;
  path.try_ns = now + bond_.options().return_ms * 1'000'000;
  if (!lives()) expect_return(why, now);
  keep_aside(index);
  if (!is_drained(index)) return;
  log(LogLevel::warning,
      fmt::format("path to rank {}: {}; it is led from {} to {} now", peer_, why.text(),
                  spare.ports.interface->name(), spare.ports.peer_name));
  take_trial(spare);
  begin_anew(index, endpoint);
  std::swap(static_cast<Ports&>(path), spare.ports);
  path.joined = true;
}

}  // namespace weft::bond
