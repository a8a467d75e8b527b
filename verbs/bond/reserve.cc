// Trying reserves when no live path is left.
#include "verbs/bond/reserve.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// The peer is given up if none of them has come back in so many times return_ms.
constexpr std::int64_t kPatience = 10;

}  // namespace

void Reserve::seek(std::int64_t now) {
  for (Path& path : endpoint_.paths()) {
    if (path.carries_notes()) continue;
    Retry& retry = path.retry;
    retry.wanted = true;
    retry.try_ns =
        std::min(retry.try_ns, std::max(now, retry.tried_ns + endpoint_.bond().return_ns()));
  }
}

void Reserve::wait(const Status& why) {
  last_ = why;
  until_ns_ = std::numeric_limits<std::int64_t>::max();
}

void Reserve::turn_to(const Status& why, std::int64_t now) {
  last_ = why;
  until_ns_ = now + kPatience * endpoint_.bond().return_ns();
  seek(now);
  look(now);
  if (!endpoint_.failure().ok()) return;
  log(LogLevel::warning,
      fmt::format("the last path to rank {} failed, those that may be back are tried: {}",
                  endpoint_.peer(), why.text()));
}

// Whether the path may carry again soon: nothing failed on it, it is on its way back, or the peer has
// connected it again. The last cannot be found out before all notices that came over the path are
// taken; until then the answer is yes.
bool Reserve::may_return(Path& path) const {
  if (path.returning()) return true;
  if (!path.interface->link().ok()) return false;  // now: it decides whether the peer is lost
  if (path.retry.is_reserve) return true;
  endpoint_.streams().keep_aside(path);
  return !endpoint_.comeback().is_drained(path) || endpoint_.comeback().is_sought(path);
}

void Reserve::look(std::int64_t now) {
  if (endpoint_.lives() || !endpoint_.failure().ok()) return;
  const bool waits =
      std::ranges::any_of(endpoint_.paths(), [this](Path& path) { return may_return(path); });
  if (!waits || now >= until_ns_) endpoint_.fail(last_);
}

}  // namespace weft::bond
