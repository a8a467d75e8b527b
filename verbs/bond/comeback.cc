// Connecting paths again.
#include "verbs/bond/comeback.h"

#include <fmt/core.h>

#include <algorithm>

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

bool Comeback::is_drained(const Path& path) const {
  return !path.endpoint->at_work() && endpoint_.streams().is_drained(path);
}

void Comeback::look(Path& path, std::int64_t now) {
  const Rank peer = endpoint_.peer();
  const std::int64_t wait_ns = endpoint_.bond().return_ns();
  if (path.returning() && now - path.retry.tried_ns > kPatience * wait_ns)
    endpoint_.recovery().give_up(path, Status(Code::timed_out, "it did not come back", peer));
  if (path.returning() || !endpoint_.failure().ok()) return;
  endpoint_.streams().keep_aside(path);
  if (!is_drained(path) || !endpoint_.bond().link_of(*path.interface).ok()) return;
  const bool is_due = now >= path.retry.try_ns && (path.resolved() || path.retry.wanted);
  const bool sought = is_sought(path);
  if (!is_due && !sought) return;
  path.retry.is_reserve |= sought;
  path.retry.tried_ns = now;
  path.retry.try_ns = now + wait_ns;  // if this one fails
  const MemoryPreference beside(path.node);
  const Result<Endpoint*> again = path.interface->reconnect(peer, path.address);
  if (!again.ok() && again.status().code() == Code::unavailable) path.retry.is_reserve = false;
  if (again.ok() && *again != path.endpoint && (*again)->failure().ok()) begin_anew(path, **again);
}

bool Comeback::is_sought(const Path& path) const {
  const Result<Endpoint*> newest = path.interface->connect(endpoint_.peer(), path.address);
  return newest.ok() && *newest != path.endpoint && (*newest)->failure().ok();
}

std::int64_t Comeback::longest_wait_ns() const {
  return kLongestWait * endpoint_.bond().return_ns();
}

// Only the first try waits longer. Later tries come every return_ms, so that tries of both ends
// meet.
std::int64_t Comeback::wait_before(const Path& path, bool judged, std::int64_t now) const {
  const std::int64_t least = endpoint_.bond().return_ns();
  const Retry& retry = path.retry;
  if (retry.back_ns == 0 || now - retry.back_ns >= longest_wait_ns()) return least;
  return std::clamp(judged ? 2 * retry.wait_ns : retry.wait_ns, least, longest_wait_ns());
}

void Comeback::wait_as_told(Path& path, std::int64_t wait_ns) const {
  path.retry.wait_ns = std::clamp(wait_ns, path.retry.wait_ns, longest_wait_ns());
  path.retry.try_ns = std::max(path.retry.try_ns, endpoint_.bond().now() + path.retry.wait_ns);
}

void Comeback::begin_anew(Path& path, Endpoint& endpoint) {
  endpoint_.streams().begin_anew(path);
  endpoint_.one_sided().begin_anew(path);
  endpoint_.bond().disown(*path.endpoint);
  path.interface->forget(*std::exchange(path.endpoint, &endpoint));
  endpoint_.bond().own(endpoint, endpoint_);
  endpoint.set_peer_member(path.peer_member);
  path.regions = 0;
  ++path.generation.now;
  path.enter(path.resolved() ? PathState::probing : PathState::early_probing);
  path.flow.connects = true;
  path.silence.moved = 0;
  path.silence.forget_questions();
  path.silence.answered_elsewhere_ns = 0;
  endpoint_.notes().probe_first(path);
}

// If the peer's count is not known yet, it is asked for over this path, as there may be no other.
void Comeback::hear_of_proof(Path& path) {
  if (path.resolved()) return come_back(path);
  if (path.state() != PathState::early_proven) path.enter(PathState::early_proven);
  endpoint_.notes().say(PathNote::What::fence, path, &path);
}

void Comeback::come_back(Path& path) {
  path.retry.is_reserve = path.retry.wanted = false;
  path.joined = true;
  path.generation.lived = path.generation.now;
  // Until the path is measured, it counts as fast as the fastest live one.
  double rate = endpoint_.lives() ? 0 : path.flow.rate;
  for (const Path& other : endpoint_.paths()) {
    if (other.live()) rate = std::max(rate, other.flow.rate);
  }
  path.enter(PathState::live);
  path.silence.moved_ns = path.retry.back_ns = endpoint_.bond().now();
  path.flow.forget(rate, path.retry.back_ns);
  path.slow = {};
  log(LogLevel::warning,
      fmt::format("path to rank {} over {} is back", endpoint_.peer(), path.interface->name()));
  endpoint_.recovery().ask_open_fences();
  // Live paths that have not answered a probe are asked about over this path, too: there may have
  // been no other path to ask over.
  for (const Path& other : endpoint_.paths()) {
    if (&other != &path && other.live() && other.silence.probed_ns != 0)
      endpoint_.notes().say(PathNote::What::probe, other, &path);
  }
}

void Comeback::hear_of_future(const Path& from, Path& path, const PathNote& note) {
  if (!path.returning() || note.what != PathNote::What::probe || &from != &path) return;
  path.generation.now = note.generation;
  endpoint_.notes().say(PathNote::What::probe, path, &path);
}

}  // namespace weft::bond
