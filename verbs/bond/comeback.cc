// A path that comes back: when nothing is owed on it any more its interface connects again, and it
// carries pieces once a probe over it was echoed over it.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// A path that was connected again has so many times return_ms to be proven.
constexpr std::int64_t kPatience = 10;
// One that is slow or silent again and again waits so many times return_ms, at most: one try in a
// minute, which can cost about slow_ms.
constexpr std::int64_t kLongestWait = 64;

}  // namespace

// Whether all that has come over the path was taken. After it was abandoned nothing more comes.
bool BondEndpoint::is_drained(std::size_t path) const {
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    const Channel& state = channels_[c];
    if (state.taken[path] < std::min(state.bound[path], paths_[path].endpoint->arrived(c)))
      return false;
  }
  return true;
}

// Both ends do this, each in its own time. What we have taken is kept for a peer who still asks;
// what it posted beyond that it posts again on another path.
void BondEndpoint::look_for_return(std::size_t index, std::int64_t now) {
  Path& path = paths_[index];
  const std::int64_t wait_ns = bond_.options().return_ms * 1'000'000;
  const Status unproven(Code::timed_out, "it did not come back", peer_);
  if (path.returning && now - path.tried_ns > kPatience * wait_ns) give_up(index, unproven);
  if (path.returning || !path.resolved || now < path.try_ns) return;
  if (!is_drained(index) || !path.interface->link().ok()) return;
  path.tried_ns = now;
  path.try_ns = now + wait_ns;  // if this one fails
  const Result<Endpoint*> again = path.interface->reconnect(peer_, path.address);
  if (again.ok() && *again != path.endpoint && (*again)->failure().ok()) begin_anew(index, **again);
}

std::int64_t BondEndpoint::longest_wait_ns() const {
  return kLongestWait * bond_.options().return_ms * 1'000'000;
}

// Only the first try waits longer; the others come each return_ms, so that those of both ends meet.
std::int64_t BondEndpoint::wait_before_return(const Path& path, bool judged,
                                              std::int64_t now) const {
  const std::int64_t least = bond_.options().return_ms * 1'000'000;
  if (path.back_ns == 0 || now - path.back_ns >= longest_wait_ns()) return least;
  return std::clamp(judged ? 2 * path.wait_ns : path.wait_ns, least, longest_wait_ns());
}

// Both ends wait as long as the one that found the path slow.
void BondEndpoint::wait_as_told(std::size_t index, std::span<const std::byte> told) {
  std::int64_t wait_ns = 0;
  if (told.size() < sizeof wait_ns) return;
  std::memcpy(&wait_ns, told.data(), sizeof wait_ns);
  Path& path = paths_[index];
  path.wait_ns = std::clamp(wait_ns, path.wait_ns, longest_wait_ns());
  path.try_ns = std::max(path.try_ns, bond_.now() + path.wait_ns);
}

void BondEndpoint::begin_anew(std::size_t index, Endpoint& endpoint) {
  Path& path = paths_[index];
  const bool took_any = std::ranges::any_of(
      channels_, [index](const Channel& state) { return state.taken[index] != 0; });
  if (took_any) path.before = path.generation;
  for (Channel& state : channels_) {
    if (took_any) state.before[index] = state.taken[index];
    state.taken[index] = 0;
    state.bound[index] = ~std::uint64_t{0};
  }
  path.endpoint = &endpoint;
  bond_.own(endpoint, *this);
  ++path.generation;
  path.returning = true;
  path.fenced = false;
  path.moved = path.carried_before = 0;
  path.questions = 0;
  path.probed_ns = path.echoed_ns = path.answered_elsewhere_ns = 0;
  recovered_ = true;
  say(PathNote::What::probe, index, index);
}

void BondEndpoint::come_back(std::size_t index) {
  Path& path = paths_[index];
  path.returning = path.resolved = false;
  // As fast as the fastest, until it is measured.
  double rate = 0;
  for (const Path& other : paths_) {
    if (other.live) rate = std::max(rate, other.rate);
  }
  path.live = true;
  path.moved_ns = path.back_ns = bond_.now();
  forget_rate(path, rate, path.back_ns);
  log(LogLevel::warning,
      fmt::format("path to rank {} over {} is back", peer_, path.interface->name()));
}

// The peer has moved on in this generation, or in one that never carried anything; of what it posted
// in an earlier one it may still ask how much we took, as our answer may have been lost.
void BondEndpoint::hear_of_past(const PathNote& note) {
  if (note.what != PathNote::What::fence || is_newer(note.generation, paths_[note.path].generation))
    return;
  notes_.push_back({{PathNote::What::fenced, note.path, note.generation}, kNowhere});
}

// The peer has tried more often than we have; the connection is the same.
void BondEndpoint::hear_of_future(std::size_t from, const PathNote& note) {
  Path& path = paths_[note.path];
  if (!path.returning || note.what != PathNote::What::probe || from != note.path) return;
  path.generation = note.generation;
  say(PathNote::What::probe, note.path, note.path);
}

}  // namespace weft::bond
