// A bonded endpoint: its turn, and what concerns all of its paths.
#include "verbs/bond/endpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// One-sided work may go over any of the paths. No path of a bonded endpoint shares memory.
EndpointProperties properties_of(const std::vector<Path>& paths) {
  EndpointProperties all = paths.front().endpoint->properties();
  for (const Path& path : paths) {
    const EndpointProperties& its = path.endpoint->properties();
    all.keeps_order &= its.keeps_order;
    all.work_needs_peer |= its.work_needs_peer;
  }
  return all;
}

void check_path(const Path& path, const Status& failure) {
  invariant(path.endpoint != nullptr, "a path has an endpoint");
  if (path.live()) {
    invariant(path.generation.now == path.generation.lived, "a live path lives in its generation");
    invariant(!path.retry.wanted, "a live path is not sought");
    invariant(failure.ok(), "a failed endpoint has no live path");
  } else {
    invariant(!path.endpoint->failure().ok() || path.returning(),
              "the connection of a path that was given up was abandoned");
  }
  if (path.returning())
    invariant(path.generation.now != path.generation.lived, "a return has a generation of its own");
  if (path.resolved())
    invariant(path.flow.backlog == 0 && path.flow.pieces == 0, "a counted path owes nothing");
  invariant(!path.lingers || (!path.live() && !path.resolved()),
            "only what the peer has not closed may linger");
}

}  // namespace

BondEndpoint::BondEndpoint(BondInterface& bond, std::string address, std::vector<Path> paths)
    : Endpoint(properties_of(paths), true),
      bond_(bond),
      address_(std::move(address)),
      paths_(std::move(paths)),
      streams_(*this, bond.options().channels, bond.options().slots),
      selector_(*this, bond.options().channels),
      one_sided_(*this),
      notes_(*this),
      recovery_(*this),
      comeback_(*this),
      reserve_(*this),
      trials_(*this) {}

// A peer closes its interfaces one after the other. What it posted on the last one may come long
// after the goodbye on the first.
bool BondEndpoint::peer_closed() const {
  return std::ranges::any_of(paths_,
                             [](const Path& path) { return path.endpoint->peer_closed(); }) &&
         std::ranges::none_of(
             paths_, [](const Path& path) { return path.live() && !path.endpoint->peer_closed(); });
}

// A piece may have to take any of the paths, so memory of a device has to suit all of them.
Status BondEndpoint::expect_pieces(std::span<const std::byte> memory, PieceMemory where) {
  for (const Path& path : paths_) {
    if (where == PieceMemory::device || path.live())
      WEFT_RETURN_IF_ERROR(path.endpoint->expect_pieces(memory, where));
  }
  return {};
}

bool BondEndpoint::progress() {
  bool news = notes_.take();
  for (Path& path : paths_) {
    if (!path.carries_notes() || path.endpoint->failure().ok()) continue;
    recovery_.give_up(path, path.endpoint->failure());
    news = true;
  }
  if (streams_.misses()) {
    streams_.post_missing();
    news |= !streams_.misses();  // there may be room again
  }
  if (!notes_.empty()) notes_.send();
  return news;
}

void BondEndpoint::look(std::int64_t now) {
  streams_.count_completions(now);
  selector_.measure(now);
  for (Path& path : paths_) {
    if (!path.live()) {
      comeback_.look(path, now);
    } else if (const Status& link = bond_.link_of(*path.interface); !link.ok()) {
      is_last(path) ? reserve_.seek(now) : recovery_.give_up(path, link, Loss::unplugged);
    } else {
      recovery_.look_for_silence(path, now);
      if (!is_last(path)) selector_.look_for_slowness(path, now);
    }
  }
  trials_.look(now);
  reserve_.look(now);
}

void BondEndpoint::look_for_returns(std::int64_t now) {
  trials_.hear(now);
  for (Path& path : paths_) {
    if (!path.live()) comeback_.look(path, now);
  }
}

bool BondEndpoint::lives() const {
  return std::ranges::any_of(paths_, &Path::live);
}

bool BondEndpoint::is_last(const Path& path) const {
  return path.live() && std::ranges::count(paths_, true, &Path::live) == 1;
}

void BondEndpoint::fail(const Status& why) {
  failure_ = Status(why.code(),
                    fmt::format("the last path to rank {} failed: {}", peer(), why.text()), peer());
  for (Path& path : paths_) recovery_.give_up(path, why);
}

void BondEndpoint::abandon(const Status& why) {
  if (failure_.ok()) fail(why);
}

std::vector<PathReport> BondEndpoint::path_reports() const {
  constexpr double kPerSecond = 1e9;
  std::vector<PathReport> reports;
  for (const Path& path : paths_) {
    const bool is_known = path.flow.measured;
    reports.push_back({std::string(path.interface->name()), path.flow.seen + path.flow.carried,
                       is_known ? path.flow.rate * kPerSecond : 0,
                       is_known ? path.flow.best * kPerSecond : 0, path.live(), path.losses});
  }
  return reports;
}

std::string BondEndpoint::describe() const {
  std::string text = paths_.size() == 1 ? "1 rail:" : fmt::format("{} rails:", paths_.size());
  for (const Path& path : paths_) {
    text += fmt::format(" {}", path.endpoint->describe());
    if (!path.live())
      text += path.returning() ? " (coming back)"
                               : fmt::format(" (given up: {})", path.endpoint->failure().text());
    else if (path.flow.measured && path.slow.ns != 0)
      text += fmt::format(" ({:.0f} Mbit/s, earlier {:.0f})", path.flow.rate * 8000,
                          path.flow.best * 8000);
    else if (path.flow.measured)
      text += fmt::format(" ({:.0f} Mbit/s)", path.flow.rate * 8000);
  }
  return text;
}

void BondEndpoint::check() const {
  streams_.check();
  for (const Path& path : paths_) check_path(path, failure_);
}

}  // namespace weft::bond
