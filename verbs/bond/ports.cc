// Ports that do not reach each other. If names alone have paired two ports, both may work and still
// not reach each other. For paths that were never connected the rank with the smaller number then
// tries other ports. The first pair over which the peer answers takes the place of one that does
// not work. To the peer this is a path that comes back over other ports, by the same notes as any
// path that comes back. What either rank had posted on the path is fenced and posted again.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/bond/interface.h"
#include "verbs/memory/memory.h"

namespace weft::bond {
namespace {

// Other ports are tried after so many times silence_ms, and each trial lasts as long. The kernel
// may have to look up a neighbor, which takes a second beside a lookup of one that is not there.
constexpr std::int64_t kPatience = 4;
constexpr std::size_t kMostTrials = 16;

}  // namespace

bool BondInterface::add_trial() {
  if (trials_ == kMostTrials) return false;
  ++trials_;
  return true;
}

bool BondEndpoint::tries_ports() const {
  return bond_.options().rank < peer();
}

void BondEndpoint::look_for_ports(std::int64_t now) {
  for (Path& path : paths_) path.joined |= path.endpoint->connected();
  const bool has_left =
      std::ranges::any_of(paths_, [](const Path& path) { return path.endpoint->peer_closed(); });
  if (has_left || !failure_.ok() || std::ranges::all_of(paths_, &Path::joined)) return end_trials();
  const std::int64_t patience_ns = kPatience * bond_.options().silence_ms * 1'000'000;
  if (round_until_ns_ == 0) round_until_ns_ = now + patience_ns;
  // The next round begins at a later look, so that others may take the places that this round gives
  // back.
  if (now >= round_until_ns_ && !end_round() && begin_round()) round_until_ns_ = now + patience_ns;
  const std::int64_t passed_ns = now - std::exchange(looked_ns_, now);
  for (SparePorts& spare : spares_) judge_trial(spare, passed_ns, now);
  if (!tries_ports()) follow_ports(now);
}

void BondEndpoint::end_trials() {
  for (SparePorts& spare : spares_) end_trial(spare);
  spares_.clear();
}

void BondEndpoint::find_spares() {
  if (!spares_.empty()) return;
  const Result<BondAddress> theirs = decode(address_, peer());
  if (!theirs.ok()) return;
  for (Ports& ports : bond_.ports_to_try(peer(), *theirs)) {
    const bool is_taken = std::ranges::any_of(paths_, [&ports](const Path& path) {
      return path.member == ports.member && path.peer_member == ports.peer_member;
    });
    if (!is_taken) spares_.push_back({std::move(ports)});
  }
}

// The ports of a path that was connected once are its own for good: if the path fails, it comes
// back over them.
bool BondEndpoint::are_free(const Ports& ports) const {
  return std::ranges::none_of(paths_, [&ports](const Path& path) {
    return path.joined && (path.member == ports.member || path.peer_member == ports.peer_member);
  });
}

// Ends the trials that nobody answered. False: there were none.
bool BondEndpoint::end_round() {
  bool ended = false;
  for (SparePorts& spare : spares_) {
    if (spare.trial == nullptr || spare.trial->connected()) continue;
    end_trial(spare);
    ended = true;
  }
  return ended;
}

// In a round each port tries one port of the peer; after as many rounds as there are ports, each
// has tried every one. A round with nothing to try takes no time. If there is no place for all
// trials of a round, the next round begins with those left. False: there is no place for trials
// now.
bool BondEndpoint::begin_round() {
  find_spares();
  if (!tries_ports()) return true;
  int ports = 1;  // of the rank that has more
  for (const SparePorts& spare : spares_)
    ports = std::max({ports, spare.ports.member + 1, spare.ports.peer_member + 1});
  for (int k = 0; k < ports; ++k) {
    const int round = (round_ + 1) % ports;
    bool tries = false;
    for (auto spare = spares_.begin(); spare != spares_.end(); ++spare) {
      const int apart = spare->ports.peer_member - spare->ports.member + ports;
      if (spare->trial != nullptr || apart % ports != round || !are_free(spare->ports)) continue;
      const Trial trial = begin_trial(*spare);
      if (trial == Trial::no_place) {
        std::rotate(spares_.begin(), spare, spares_.end());
        return tries;
      }
      tries |= trial == Trial::begun;
    }
    round_ = round;
    if (tries) return true;
  }
  return true;
}

BondEndpoint::Trial BondEndpoint::begin_trial(SparePorts& spare) {
  if (!bond_.link_of(*spare.ports.interface).ok()) return Trial::impossible;
  if (!bond_.add_trial()) return Trial::no_place;
  const MemoryPreference beside(spare.ports.node);
  const Result<Endpoint*> tried = spare.ports.interface->reconnect(peer(), spare.ports.address);
  if (!tried.ok()) {
    bond_.drop_trial();
    return Trial::impossible;
  }
  spare.trial = *tried;
  return Trial::begun;
}

// A peer that is slow to start may answer over these ports a moment before it answers over those
// that were paired by name, which are better. So an answer has to hold for that moment. One look
// counts for a quarter of it at most, because a rank that was not running for a while has not heard
// of the other ports' answers, either.
void BondEndpoint::judge_trial(SparePorts& spare, std::int64_t passed_ns, std::int64_t now) {
  const std::int64_t moment_ns = bond_.options().silence_ms * 1'000'000;
  if (spare.trial == nullptr) return;
  if (!spare.trial->failure().ok() || !are_free(spare.ports)) return end_trial(spare);
  if (!spare.trial->connected()) return;
  spare.answered_ns += std::min(passed_ns, moment_ns / 4);
  if (spare.answered_ns < moment_ns) return;
  const std::size_t path = path_to_move(spare.ports);
  path == kNowhere ? end_trial(spare) : move_path(path, spare, *spare.trial, now);
}

Endpoint* BondEndpoint::take_trial(SparePorts& spare) {
  spare.answered_ns = 0;
  if (spare.trial != nullptr) bond_.drop_trial();
  return std::exchange(spare.trial, nullptr);
}

void BondEndpoint::end_trial(SparePorts& spare) {
  Endpoint* const trial = take_trial(spare);
  if (trial == nullptr) return;
  trial->abandon(Status(Code::unavailable, "these ports were only tried", peer()));
  spare.ports.interface->forget(*trial);
}

// Follows the peer to other ports. The peer's first note on new ports says which path it moves
// there. The peer has taken its time to see that the old ports do not reach each other, so this is
// not asked again.
void BondEndpoint::follow_ports(std::int64_t now) {
  if (!failure_.ok()) return;
  for (SparePorts& spare : spares_) {
    Endpoint* const heard = spare.ports.interface->heard_from(peer(), spare.ports.address);
    if (heard == nullptr) continue;
    const Notice notice = heard->front(kControlChannel);
    PathNote note;
    if (notice.header->kind != NoticeKind::path || notice.header->bytes < sizeof note) continue;
    std::memcpy(&note, notice.payload, sizeof note);
    if (note.what != PathNote::What::probe || note.path >= paths_.size()) continue;
    const Result<Endpoint*> given = spare.ports.interface->connect(peer(), spare.ports.address);
    if (given.ok()) move_path(note.path, spare, **given, now);
  }
}

// The path that moves to these ports: of the paths that were never connected, the one that has most
// in common with the ports.
std::size_t BondEndpoint::path_to_move(const Ports& ports) const {
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

// Moves a path to other ports, as if it had been given up without a fault and were sought by the
// peer. If no path is live then, the peer is not failed: it may be busy and answer late, and it was
// no failure before, either. If the caller just looks at a notice that came over the path, the path
// moves at a later look.
void BondEndpoint::move_path(std::size_t index, SparePorts& spare, Endpoint& endpoint,
                             std::int64_t now) {
  Path& path = paths_[index];
  const Status why(Code::unavailable,
                   fmt::format("{} does not reach {} of rank {}", path.interface->name(),
                               path.peer_name, peer()),
                   peer());
  path.endpoint->abandon(why);
  const bool was_live = path.leave();
  path.lingers |= was_live && path.endpoint->work_may_linger();
  path.joined = false;
  path.comeback.stands = true;
  path.comeback.tried_ns = now;
  path.comeback.try_ns = now + bond_.options().return_ms * 1'000'000;
  if (!lives()) {
    path.comeback.wanted = true;
    if (was_live) wait_for_return(why);
  } else if (!path.resolved()) {
    say(PathNote::What::fence, index, kNowhere);
  }
  keep_aside(index);
  if (!is_drained(index)) return;
  log(LogLevel::warning,
      fmt::format("path to rank {}: {}; it moves from {} to {} now", peer(), why.text(),
                  spare.ports.interface->name(), spare.ports.peer_name));
  take_trial(spare);
  begin_anew(index, endpoint);
  std::swap(static_cast<Ports&>(path), spare.ports);
  path.endpoint->set_peer_member(path.peer_member);
  path.joined = true;
  choose_used();
}

}  // namespace weft::bond
