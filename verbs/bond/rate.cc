// How fast paths carry, and whether one of them has grown slow.
#include <fmt/core.h>

#include <algorithm>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// A sample of a path's rate ends after so many bytes, or after so long if anything was carried.
// Pieces complete in bursts, so a sample of a few says nothing. A sample of no piece says nothing
// either, because it may end right before a piece completes.
constexpr std::uint64_t kSampleBytes = std::uint64_t{4} << 20;
constexpr std::int64_t kSampleNs = 100'000'000;
// If a path has carried less than this in all, little is known of it: it may have stood still
// because the peer was not there yet.
constexpr std::uint64_t kKnownBytes = std::uint64_t{4} << 20;
// How far a path may lag behind its rate within a sample before it is assumed to be slower.
constexpr std::uint64_t kLagBytes = std::uint64_t{1} << 20;
// No path is ever thought slower than this, so that one that stood still is tried again.
constexpr double kLeastRate = 1e-6;
// Flow::best follows a higher rate within kLearnNs of time with pieces under way, so that a burst
// into empty buffers does not count as a rate. It follows a lower rate within kForgetNs.
constexpr double kLearnNs = 1e9;
constexpr double kForgetNs = 60e9;
// A path carries well if it carries this share of its own best. If another path carries well, it
// shows what a rail can do now. If all paths have fallen back, the receiver is slow.
constexpr double kWell = 0.25;

std::string megabits(double rate) {
  return fmt::format("{:.{}f}", rate * 8000, rate * 8000 < 10 ? 2 : 0);
}

}  // namespace

void count_time(Path& path, std::int64_t now) {
  if (path.flow.connects) {
    path.flow.connects = !path.endpoint->connected();
  } else if (path.flow.pieces != 0) {
    path.flow.busy_ns += now - path.flow.counted_ns;
    path.flow.held +=
        static_cast<double>(path.flow.backlog) * static_cast<double>(now - path.flow.counted_ns);
  }
  path.flow.counted_ns = now;
}

double Flow::rate_at(std::int64_t now) const {
  const auto busy = static_cast<double>(busy_until(now));
  const auto most = static_cast<double>(carried + kLagBytes);
  if (pieces == 0 || rate * busy <= most) return rate;
  return std::max(kLeastRate, most / busy);
}

void Flow::forget(double new_rate, std::int64_t now) {
  rate = new_rate;
  measured = false;
  backlog = carried = 0;
  pieces = 0;
  busy_ns = 0;
  held = 0;
  fell_back = false;
  counted_ns = now;
}

// Whether all paths that the caller wants used carry well. If not, the other paths take pieces,
// too: what they carry tells whether the used paths have grown slow, or the peer.
bool PathSelector::do_used_carry_well(std::int64_t now) const {
  return std::ranges::all_of(paths_, [now](const Path& path) {
    if (!path.is_used) return true;
    return path.live() && !path.flow.fell_back &&
           path.flow.rate_at(now) >= kWell * std::min(path.flow.rate, path.flow.best);
  });
}

// A path that was found slow may be fast again, but it is given no piece that would show it. So
// while it carries none, its estimate doubles every return_ms, up to what it once carried; or, if
// little is known of it, up to what the fastest path carries.
void PathSelector::measure(std::int64_t now) {
  const std::int64_t patience_ns = endpoint_.bond().return_ns();
  for (Path& path : paths_) {
    if (!path.live()) continue;
    if (path.flow.connects) count_time(path, now);
    const std::int64_t busy = path.flow.busy_until(now);
    if (path.flow.carried >= kSampleBytes || (busy >= kSampleNs && path.flow.carried != 0)) {
      close_sample(path, now);
    } else if (path.flow.pieces == 0 && now - path.flow.counted_ns >= patience_ns) {
      path.flow.rate = std::max(path.flow.rate, std::min(highest_rate(path), 2 * path.flow.rate));
      path.flow.counted_ns = now;
    }
  }
}

// The highest rate that a path is assumed to have without evidence.
double PathSelector::highest_rate(const Path& path) const {
  double most = path.flow.best;
  if (path.flow.seen >= kKnownBytes) return most;
  for (const Path& other : paths_) {
    if (other.live()) most = std::max(most, other.flow.rate);
  }
  return most;
}

void PathSelector::close_sample(Path& path, std::int64_t now) {
  count_time(path, now);
  const auto busy = static_cast<double>(path.flow.busy_ns);
  path.flow.latest = static_cast<double>(path.flow.carried) / busy;
  path.flow.rate =
      std::max(kLeastRate,
               path.flow.measured ? (3 * path.flow.rate + path.flow.latest) / 4 : path.flow.latest);
  path.flow.measured = true;
  path.flow.best += (path.flow.rate - path.flow.best) *
                    std::min(1.0, busy / (path.flow.rate > path.flow.best ? kLearnNs : kForgetNs));
  if (path.flow.held / busy >= static_cast<double>(endpoint_.bond().piece_bytes()) / 2) {
    path.flow.fell_back = path.flow.latest < kWell * path.flow.best;
    count_slowness(path, now);
  }
  path.flow.seen += path.flow.carried;
  path.flow.carried = 0;
  path.flow.busy_ns = 0;
  path.flow.held = 0;
}

// Counts a sample in which the path had at least half a piece to carry on average. A sample with
// less shows how long a piece takes, and not what the path could do. If no other path carries more,
// the sample shows nothing either.
void PathSelector::count_slowness(Path& path, std::int64_t now) {
  const double share = endpoint_.bond().options().slow_share;
  if (path.flow.latest >= share * path.flow.best) {
    path.slow = {};
  } else if (path.flow.latest < share * rate_beside(path, now)) {
    path.slow.sample_ns = now - path.flow.busy_ns;
    if (path.slow.ns == 0) path.slow.since_ns = path.slow.sample_ns;
    path.slow.ns += path.flow.busy_ns;
    path.slow.rate = path.flow.latest;
  }
}

// What the fastest of the other paths carries now; 0 where none of them does well.
double PathSelector::rate_beside(const Path& path, std::int64_t now) const {
  double most = 0;
  for (const Path& other : paths_) {
    if (&other == &path || !other.live() || !other.flow.measured) continue;
    const double rate = std::min(other.flow.latest, other.flow.rate_at(now));
    if (rate >= kWell * other.flow.best) most = std::max(most, rate);
  }
  return most;
}

// A receiver that took nothing for a while makes the one path look slow that had pieces at that
// time. So the receiver is asked over the other paths, and only a sample counts that began after
// its answer.
void PathSelector::look_for_slowness(Path& path, std::int64_t now) {
  const std::int64_t slow_ns = endpoint_.bond().options().slow_ms * 1'000'000;
  if (path.slow.ns < slow_ns / 2 || now - path.slow.since_ns < slow_ns) return;
  if (path.slow.asked_ns == 0) {
    for (const Path& other : paths_) {
      if (other.live() && &other != &path)
        endpoint_.notes().say(PathNote::What::probe, path, &other);
    }
    path.slow.asked_ns = now;
    return;
  }
  if (path.silence.answered_elsewhere_ns < path.slow.asked_ns ||
      path.slow.sample_ns < path.silence.answered_elsewhere_ns)
    return;
  const double beside = rate_beside(path, now);
  if (beside == 0) return;
  const Rank peer = endpoint_.peer();
  const std::string why = fmt::format(
      "{} has grown slow: it carries {} Mbit/s to rank {}, earlier {}, while another rail carries "
      "{}",
      path.interface->name(), megabits(path.slow.rate), peer, megabits(path.flow.best),
      megabits(beside));
  endpoint_.recovery().give_up(path, Status(Code::timed_out, why, peer), Loss::judged);
}

}  // namespace weft::bond
