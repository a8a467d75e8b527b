// When no live path is left: paths on which nothing failed, or that are on their way back, are tried
// at once.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// The peer is given up if none of them has come back in so many times return_ms.
constexpr std::int64_t kPatience = 10;

}  // namespace

bool BondEndpoint::lives() const {
  return std::ranges::any_of(paths_, &Path::live);
}

bool BondEndpoint::is_last(std::size_t path) const {
  return paths_[path].live() && std::ranges::count(paths_, true, &Path::live) == 1;
}

// The last live path is not given up for silence: its network may recover, and the operation's
// deadline bounds the wait. But paths that wait for their return are tried now.
void BondEndpoint::seek_reserve(std::int64_t now) {
  const std::int64_t between_ns = bond_.options().return_ms * 1'000'000;
  for (Path& path : paths_) {
    if (path.live() || path.returning()) continue;
    path.comeback.wanted = true;
    path.comeback.try_ns =
        std::min(path.comeback.try_ns, std::max(now, path.comeback.tried_ns + between_ns));
  }
}

// Nothing has failed, so this may take as long as it needs; the operation's deadline bounds it.
void BondEndpoint::wait_for_return(const Status& why) {
  last_ = why;
  reserve_until_ns_ = std::numeric_limits<std::int64_t>::max();
}

// Tries the paths that may return at once. The peer may not know that the last path failed. When it
// hears that we connect again, it does so, too.
void BondEndpoint::turn_to_reserve(const Status& why, std::int64_t now) {
  last_ = why;
  reserve_until_ns_ = now + kPatience * bond_.options().return_ms * 1'000'000;
  seek_reserve(now);
  look_for_reserve(now);
  if (!failure_.ok()) return;
  log(LogLevel::warning,
      fmt::format("the last path to rank {} failed, those that may be back are tried: {}", peer(),
                  why.text()));
}

// Whether the path may carry again soon: nothing failed on it, it is on its way back, or the peer has
// connected it again. The last cannot be found out before all notices that came over the path are
// taken; until then the answer is yes.
bool BondEndpoint::may_return(std::size_t index) {
  const Path& path = paths_[index];
  if (path.returning()) return true;
  if (!path.interface->link().ok()) return false;  // now: it decides whether the peer is lost
  if (path.comeback.stands) return true;
  keep_aside(index);
  return !is_drained(index) || is_sought(index);
}

void BondEndpoint::look_for_reserve(std::int64_t now) {
  if (lives() || !failure_.ok()) return;
  bool waits = false;
  for (std::size_t p = 0; p < paths_.size() && !waits; ++p) waits = may_return(p);
  if (!waits || now >= reserve_until_ns_) fail(last_);
}

void BondEndpoint::look_for_returns(std::int64_t now) {
  if (!tries_ports()) {
    find_spares();
    follow_ports(now);
  }
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (!paths_[p].live()) look_for_return(p, now);
  }
}

void BondEndpoint::fail(const Status& why) {
  failure_ = Status(why.code(),
                    fmt::format("the last path to rank {} failed: {}", peer(), why.text()), peer());
  for (std::size_t p = 0; p < paths_.size(); ++p) give_up(p, why);
}

}  // namespace weft::bond
