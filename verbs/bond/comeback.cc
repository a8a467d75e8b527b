// A path that comes back: its interface connects again, a probe over the new connection is echoed
// over it, and the peer's count of what it took before has come. Then the path is live.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/bond/interface.h"
#include "verbs/memory/memory.h"

namespace weft::bond {
namespace {

// A path that was connected again is given up if it was not proven within so many times return_ms.
constexpr std::int64_t kPatience = 10;
// A path that is slow or silent again and again waits at most so many times return_ms. That is one
// try in a minute, which can cost about slow_ms.
constexpr std::int64_t kLongestWait = 64;

}  // namespace

// Whether nothing of the path's connection is needed any more: all notices that came over it were
// taken, and the caller knows how all one-sided work on it ended. After a path was abandoned
// nothing more comes.
bool BondEndpoint::is_drained(std::size_t path) const {
  if (paths_[path].endpoint->at_work()) return false;
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    const Channel& state = channels_[c];
    if (state.taken[path] < std::min(state.bound[path], paths_[path].endpoint->arrived(c)))
      return false;
  }
  return true;
}

// Both ends connect a path again, each when it is due, or as soon as it finds that the other has.
// How many notices were taken from the old connection is kept for a peer that still asks; what the
// peer had posted beyond that, it posts again on another path.
void BondEndpoint::look_for_return(std::size_t index, std::int64_t now) {
  Path& path = paths_[index];
  const std::int64_t wait_ns = bond_.options().return_ms * 1'000'000;
  const Status unproven(Code::timed_out, "it did not come back", peer());
  if (path.returning() && now - path.comeback.tried_ns > kPatience * wait_ns)
    give_up(index, unproven);
  if (path.returning() || !failure_.ok()) return;
  keep_aside(index);
  if (!is_drained(index) || !bond_.link_of(*path.interface).ok()) return;
  const bool is_due = now >= path.comeback.try_ns && (path.resolved() || path.comeback.wanted);
  const bool sought = is_sought(index);
  if (!is_due && !sought) return;
  path.comeback.stands |= sought;
  path.comeback.tried_ns = now;
  path.comeback.try_ns = now + wait_ns;  // if this one fails
  const MemoryPreference beside(path.node);
  const Result<Endpoint*> again = path.interface->reconnect(peer(), path.address);
  if (!again.ok() && again.status().code() == Code::unavailable) path.comeback.stands = false;
  if (again.ok() && *again != path.endpoint && (*again)->failure().ok()) begin_anew(index, **again);
}

// Whether the peer has connected the path again: its interface then has a newer endpoint.
bool BondEndpoint::is_sought(std::size_t index) const {
  const Path& path = paths_[index];
  const Result<Endpoint*> newest = path.interface->connect(peer(), path.address);
  return newest.ok() && *newest != path.endpoint && (*newest)->failure().ok();
}

std::int64_t BondEndpoint::longest_wait_ns() const {
  return kLongestWait * bond_.options().return_ms * 1'000'000;
}

// Only the first try waits longer. Later tries come every return_ms, so that tries of both ends
// meet.
std::int64_t BondEndpoint::wait_before_return(const Path& path, bool judged,
                                              std::int64_t now) const {
  const std::int64_t least = bond_.options().return_ms * 1'000'000;
  if (path.comeback.back_ns == 0 || now - path.comeback.back_ns >= longest_wait_ns()) return least;
  return std::clamp(judged ? 2 * path.comeback.wait_ns : path.comeback.wait_ns, least,
                    longest_wait_ns());
}

// Both ends wait as long as the one that found the path slow.
void BondEndpoint::wait_as_told(std::size_t index, std::span<const std::byte> told) {
  std::int64_t wait_ns = 0;
  if (told.size() < sizeof wait_ns) return;
  std::memcpy(&wait_ns, told.data(), sizeof wait_ns);
  Path& path = paths_[index];
  path.comeback.wait_ns = std::clamp(wait_ns, path.comeback.wait_ns, longest_wait_ns());
  path.comeback.try_ns = std::max(path.comeback.try_ns, bond_.now() + path.comeback.wait_ns);
}

void BondEndpoint::begin_anew(std::size_t index, Endpoint& endpoint) {
  Path& path = paths_[index];
  // If the connection carried only notes about paths, the peer does not ask how much was taken from
  // it.
  const bool took = std::exchange(path.generation.took, false);
  if (took) path.generation.before = path.generation.now;
  for (Channel& state : channels_) {
    if (took) state.before[index] = state.taken[index];
    state.taken[index] = state.locally_completed[index] = 0;
    state.bound[index] = kUnbound;
  }
  if (worked_on_ == path.endpoint) worked_on_ = nullptr;
  bond_.disown(*path.endpoint);
  path.interface->forget(*std::exchange(path.endpoint, &endpoint));
  bond_.own(endpoint, *this);
  endpoint.set_peer_member(path.peer_member);
  path.regions = 0;
  ++path.generation.now;
  path.enter(path.resolved() ? PathState::probing : PathState::early_probing);
  path.flow.connects = true;
  path.silence.moved = 0;
  path.silence.forget_questions();
  path.silence.answered_elsewhere_ns = 0;
  recovered_ = true;
  // The probe goes before all other notes that wait. The first note on a new connection has to name
  // its path (follow_ports()).
  say(PathNote::What::probe, index, index);
  std::rotate(notes_.rbegin(), std::next(notes_.rbegin()), notes_.rend());
}

// The echo came. If the peer's count is not known yet, it is asked for over this path, as there may
// be no other.
void BondEndpoint::hear_of_proof(std::size_t index) {
  Path& path = paths_[index];
  if (path.resolved()) return come_back(index);
  if (path.state() != PathState::early_proven) path.enter(PathState::early_proven);
  say(PathNote::What::fence, index, index);
}

void BondEndpoint::come_back(std::size_t index) {
  Path& path = paths_[index];
  path.comeback.stands = path.comeback.wanted = false;
  path.joined = true;
  path.generation.lived = path.generation.now;
  // Until the path is measured, it counts as fast as the fastest live one.
  double rate = lives() ? 0 : path.flow.rate;
  for (const Path& other : paths_) {
    if (other.live()) rate = std::max(rate, other.flow.rate);
  }
  path.enter(PathState::live);
  path.silence.moved_ns = path.comeback.back_ns = bond_.now();
  path.flow.forget(rate, path.comeback.back_ns);
  path.slow = {};
  log(LogLevel::warning,
      fmt::format("path to rank {} over {} is back", peer(), path.interface->name()));
  ask_open_fences();
  // Live paths that have not answered a probe are asked about over this path, too: there may have
  // been no other path to ask over.
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (p != index && paths_[p].live() && paths_[p].silence.probed_ns != 0)
      say(PathNote::What::probe, p, index);
  }
}

// A note about an earlier generation. Only one still matters: the peer asks how much we took in it,
// because our answer may have been lost.
void BondEndpoint::hear_of_past(std::size_t from, const PathNote& note) {
  if (note.what != PathNote::What::fence ||
      is_newer(note.generation, paths_[note.path].generation.now))
    return;
  notes_.push_back({{PathNote::What::fenced, note.path, note.generation}, from});
}

// The peer has tried more often than we have, so its generation is higher; the connection is the
// same.
void BondEndpoint::hear_of_future(std::size_t from, const PathNote& note) {
  Path& path = paths_[note.path];
  if (!path.returning() || note.what != PathNote::What::probe || from != note.path) return;
  path.generation.now = note.generation;
  say(PathNote::What::probe, note.path, note.path);
}

}  // namespace weft::bond
