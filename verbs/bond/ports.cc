// Trying ports, and moving paths to those that reach each other.
#include "verbs/bond/ports.h"

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

PortTrials::PortTrials(BondEndpoint& endpoint)
    : endpoint_(endpoint),
      paths_(endpoint.paths()),
      tries_(endpoint.bond().options().rank < endpoint.peer()) {}

void PortTrials::look(std::int64_t now) {
  for (Path& path : paths_) path.joined |= path.endpoint->connected();
  const bool has_left =
      std::ranges::any_of(paths_, [](const Path& path) { return path.endpoint->peer_closed(); });
  if (has_left || !endpoint_.failure().ok() || std::ranges::all_of(paths_, &Path::joined))
    return end();
  const std::int64_t patience_ns = kPatience * endpoint_.bond().silence_ns();
  if (round_until_ns_ == 0) round_until_ns_ = now + patience_ns;
  // The next round begins at a later look, so that others may take the places that this round gives
  // back.
  if (now >= round_until_ns_ && !end_round() && begin_round()) round_until_ns_ = now + patience_ns;
  const std::int64_t passed_ns = now - std::exchange(looked_ns_, now);
  for (Spare& spare : spares_) judge_trial(spare, passed_ns, now);
  if (!tries_) follow(now);
}

void PortTrials::end() {
  for (Spare& spare : spares_) end_trial(spare);
  spares_.clear();
}

void PortTrials::find_spares() {
  if (!spares_.empty()) return;
  const Result<BondAddress> theirs = decode(endpoint_.address(), endpoint_.peer());
  if (!theirs.ok()) return;
  for (Ports& ports : endpoint_.bond().ports_to_try(endpoint_.peer(), *theirs)) {
    const bool is_taken = std::ranges::any_of(paths_, [&ports](const Path& path) {
      return path.member == ports.member && path.peer_member == ports.peer_member;
    });
    if (!is_taken) spares_.push_back({std::move(ports)});
  }
}

// The ports of a path that was connected once are its own for good: if the path fails, it comes
// back over them.
bool PortTrials::are_free(const Ports& ports) const {
  return std::ranges::none_of(paths_, [&ports](const Path& path) {
    return path.joined && (path.member == ports.member || path.peer_member == ports.peer_member);
  });
}

// Ends the trials that nobody answered. False: there were none.
bool PortTrials::end_round() {
  bool ended = false;
  for (Spare& spare : spares_) {
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
bool PortTrials::begin_round() {
  find_spares();
  if (!tries_) return true;
  int ports = 1;  // of the rank that has more
  for (const Spare& spare : spares_)
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

PortTrials::Trial PortTrials::begin_trial(Spare& spare) {
  if (!endpoint_.bond().link_of(*spare.ports.interface).ok()) return Trial::impossible;
  if (!endpoint_.bond().add_trial()) return Trial::no_place;
  const MemoryPreference beside(spare.ports.node);
  const Result<Endpoint*> tried =
      spare.ports.interface->reconnect(endpoint_.peer(), spare.ports.address);
  if (!tried.ok()) {
    endpoint_.bond().drop_trial();
    return Trial::impossible;
  }
  spare.trial = *tried;
  return Trial::begun;
}

// A peer that is slow to start may answer over these ports a moment before it answers over those
// that were paired by name, which are better. So an answer has to hold for that moment. One look
// counts for a quarter of it at most, because a rank that was not running for a while has not heard
// of the other ports' answers, either.
void PortTrials::judge_trial(Spare& spare, std::int64_t passed_ns, std::int64_t now) {
  const std::int64_t moment_ns = endpoint_.bond().silence_ns();
  if (spare.trial == nullptr) return;
  if (!spare.trial->failure().ok() || !are_free(spare.ports)) return end_trial(spare);
  if (!spare.trial->connected()) return;
  spare.answered_ns += std::min(passed_ns, moment_ns / 4);
  if (spare.answered_ns < moment_ns) return;
  Path* const path = path_to_move(spare.ports);
  path == nullptr ? end_trial(spare) : move_path(*path, spare, *spare.trial, now);
}

Endpoint* PortTrials::take_trial(Spare& spare) {
  spare.answered_ns = 0;
  if (spare.trial != nullptr) endpoint_.bond().drop_trial();
  return std::exchange(spare.trial, nullptr);
}

void PortTrials::end_trial(Spare& spare) {
  Endpoint* const trial = take_trial(spare);
  if (trial == nullptr) return;
  trial->abandon(Status(Code::unavailable, "these ports were only tried", endpoint_.peer()));
  spare.ports.interface->forget(*trial);
}

void PortTrials::hear(std::int64_t now) {
  if (tries_) return;
  find_spares();
  follow(now);
}

// Follows the peer to other ports. The peer's first note on new ports says which path it moves
// there. The peer has taken its time to see that the old ports do not reach each other, so this is
// not asked again.
void PortTrials::follow(std::int64_t now) {
  if (!endpoint_.failure().ok()) return;
  for (Spare& spare : spares_) {
    Endpoint* const heard =
        spare.ports.interface->heard_from(endpoint_.peer(), spare.ports.address);
    if (heard == nullptr) continue;
    const Notice notice = heard->front(kControlChannel);
    PathNote note;
    if (notice.header->kind != NoticeKind::path || notice.header->bytes < sizeof note) continue;
    std::memcpy(&note, notice.payload, sizeof note);
    if (note.what != PathNote::What::probe || note.path >= paths_.size()) continue;
    const Result<Endpoint*> given =
        spare.ports.interface->connect(endpoint_.peer(), spare.ports.address);
    if (given.ok()) move_path(paths_[note.path], spare, **given, now);
  }
}

// The path that moves to these ports: of the paths that were never connected, the one that has most
// in common with the ports.
Path* PortTrials::path_to_move(const Ports& ports) const {
  const auto likeness = [&ports](const Path& path) {
    if (path.member == ports.member) return 3;
    if (path.peer_member == ports.peer_member) return 2;
    return path.rail == ports.rail ? 1 : 0;
  };
  Path* most = nullptr;
  for (Path& path : paths_) {
    if (!path.joined && (most == nullptr || likeness(path) > likeness(*most))) most = &path;
  }
  return most;
}

// Moves a path to other ports, as if it had been given up without a fault and were sought by the
// peer. If no path is live then, the peer is not failed: it may be busy and answer late, and it was
// no failure before, either. If the caller just looks at a notice that came over the path, the path
// moves at a later look.
void PortTrials::move_path(Path& path, Spare& spare, Endpoint& endpoint, std::int64_t now) {
  const Rank peer = endpoint_.peer();
  const Status why(
      Code::unavailable,
      fmt::format("{} does not reach {} of rank {}", path.interface->name(), path.peer_name, peer),
      peer);
  path.endpoint->abandon(why);
  const bool was_live = path.leave();
  path.lingers |= was_live && path.endpoint->work_may_linger();
  path.joined = false;
  path.retry.is_reserve = true;
  path.retry.tried_ns = now;
  path.retry.try_ns = now + endpoint_.bond().return_ns();
  if (!endpoint_.lives()) {
    path.retry.wanted = true;
    if (was_live) endpoint_.reserve().wait(why);
  } else if (!path.resolved()) {
    endpoint_.notes().say(PathNote::What::fence, path, nullptr);
  }
  endpoint_.streams().keep_aside(path);
  if (!endpoint_.comeback().is_drained(path)) return;
  log(LogLevel::warning,
      fmt::format("path to rank {}: {}; it moves from {} to {} now", peer, why.text(),
                  spare.ports.interface->name(), spare.ports.peer_name));
  take_trial(spare);
  endpoint_.comeback().begin_anew(path, endpoint);
  std::swap(static_cast<Ports&>(path), spare.ports);
  path.endpoint->set_peer_member(path.peer_member);
  path.joined = true;
  endpoint_.selector().choose_used();
}

}  // namespace weft::bond
