// The data path of a bonded endpoint: choosing paths, numbering, taking by number.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

// A preferred rail is not used if another one carries more than so many times as much.
constexpr double kMuchFaster = 1.5;

std::uint32_t stamp_of(std::uint64_t number) {
  return static_cast<std::uint32_t>(number + 1);
}

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

}  // namespace

BondEndpoint::BondEndpoint(BondInterface& bond, std::string address, std::vector<Path> paths)
    : Endpoint(properties_of(paths), true),
      bond_(bond),
      address_(std::move(address)),
      paths_(std::move(paths)),
      channels_(bond.options().channels) {
  const std::size_t window = std::bit_ceil(paths_.size() * bond.options().slots);
  for (Channel& channel : channels_) {
    channel.sent.resize(window);
    channel.taken.resize(paths_.size());
    channel.bound.resize(paths_.size(), kUnbound);
    channel.before.resize(paths_.size());
    channel.locally_completed.resize(paths_.size());
  }
}

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

void BondEndpoint::prefer_rail(std::uint32_t channel, int rail, PreferFrom from) {
  std::size_t& preferred = channels_[channel].preferred;
  channels_[channel].prefers_from = from;
  preferred = kNowhere;
  if (rail < 0) return;
  const auto place = static_cast<std::size_t>(rail) % paths_.size();
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    const auto before = [&](const Path& other) {
      return other.rail < paths_[p].rail || (other.rail == paths_[p].rail && &other < &paths_[p]);
    };
    if (static_cast<std::size_t>(std::ranges::count_if(paths_, before)) == place) preferred = p;
  }
}

void BondEndpoint::use_members(std::span<const int> ours, std::span<const int> theirs) {
  used_.assign(ours.begin(), ours.end());
  peer_used_.assign(theirs.begin(), theirs.end());
  choose_used();
}

void BondEndpoint::choose_used() {
  const auto is_one_of = [](std::span<const int> members, int member) {
    return std::ranges::find(members, member) != members.end();
  };
  for (Path& path : paths_)
    path.is_used = is_one_of(used_, path.member) && is_one_of(peer_used_, path.peer_member);
  uses_all_ = std::ranges::none_of(paths_, &Path::is_used);
  for (Path& path : paths_) path.is_used |= uses_all_;
}

// Whether the preferred path takes the pieces that prefer it: as long as no other path is known to
// be much faster.
bool BondEndpoint::is_worth(const Channel& state, std::int64_t now) const {
  if (state.preferred == kNowhere || !paths_[state.preferred].live()) return false;
  const double rate = paths_[state.preferred].flow.rate_at(now);
  return std::ranges::all_of(paths_, [&](const Path& other) {
    if (!other.live()) return true;
    if (!other.flow.measured) return state.prefers_from == PreferFrom::start || !other.is_used;
    return other.flow.rate_at(now) <= kMuchFaster * rate;
  });
}

// The path that would deliver `bytes` more first; only paths that the caller wants used are looked
// at, if all of them carry well. The path may be full: then the caller waits for it, since every
// other would deliver later.
std::size_t BondEndpoint::choose(std::uint64_t bytes, std::int64_t now) const {
  std::size_t best = kNowhere;
  double soonest = 0;
  const bool is_any = uses_all_ || !do_used_carry_well(now);
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    const Path& path = paths_[p];
    if (!path.live() || (!is_any && !path.is_used)) continue;
    const double done = static_cast<double>(path.flow.backlog + bytes) / path.flow.rate_at(now);
    if (best != kNowhere && done >= soonest) continue;
    best = p;
    soonest = done;
  }
  return best;
}

// Subtracts notices that have completed locally from the backlogs of their paths.
void BondEndpoint::count_completions(Channel& state, std::uint32_t channel, std::int64_t now) {
  bool any = false;
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (paths_[p].in_doubt()) continue;
    const std::uint64_t completed = paths_[p].endpoint->locally_completed(channel);
    any |= std::exchange(state.locally_completed[p], completed) != completed;
  }
  if (!any) return;
  for (std::uint64_t n = state.released; n < state.posted; ++n) {
    Sent& sent = state.sent[n % state.sent.size()];
    if (sent.locally_completed || sent.missing || paths_[sent.path].in_doubt()) continue;
    if (state.locally_completed[sent.path] >= sent.path_number)
      count_completed(paths_[sent.path], sent, now);
  }
}

void BondEndpoint::count_completed(Path& path, Sent& sent, std::int64_t now) {
  sent.locally_completed = true;
  count_time(path, now);
  path.flow.backlog -= sent.payload.size();
  if (sent.how == Payload::copied) return;
  path.flow.carried += sent.payload.size();
  --path.flow.pieces;
}

Posted BondEndpoint::post_on(std::size_t index, std::uint32_t channel, Sent& sent) {
  Path& path = paths_[index];
  sent.header.path = static_cast<std::uint16_t>(index);
  if (path.endpoint->post(channel, sent.header, sent.payload, sent.how) == Posted::full)
    return Posted::full;
  const std::int64_t now = bond_.now();
  count_time(path, now);
  if (path.flow.backlog == 0) path.silence.moved_ns = now;
  if (sent.how == Payload::lent) ++path.flow.pieces;
  path.flow.backlog += sent.payload.size();
  sent.path = static_cast<std::uint32_t>(index);
  sent.path_number = path.endpoint->posted(channel);
  sent.taken = sent.missing = sent.locally_completed = false;
  return Posted::posted;
}

Posted BondEndpoint::post(std::uint32_t channel, const WireHeader& header,
                          std::span<const std::byte> payload, Payload how) {
  Channel& state = channels_[channel];
  if (!failure_.ok() || missing_ != 0) return Posted::full;
  const std::int64_t now = bond_.now();
  count_completions(state, channel, now);
  measure(now);
  if (state.posted - released(channel) == state.sent.size()) return Posted::full;
  const bool is_piece = how == Payload::lent;
  const bool as_preferred = is_piece && is_worth(state, now);
  const std::size_t path = as_preferred ? state.preferred : choose(payload.size(), now);
  if (path == kNowhere) return Posted::full;
  // Pieces under way may take half of a path's slots. The other half is for pieces that have come
  // and wait for earlier ones on a slower path.
  const std::uint64_t most = bond_.options().slots / 2 * bond_.piece_bytes();
  if (is_piece && paths_[path].flow.backlog + payload.size() > most) {
    // The backlog is that of all channels. If this channel is the only one that still posts, the
    // pieces of the others have to be counted here.
    for (std::uint32_t c = 0; c < channels_.size(); ++c) count_completions(channels_[c], c, now);
    if (paths_[path].flow.backlog + payload.size() > most) return Posted::full;
  }
  Sent& sent = state.sent[state.posted % state.sent.size()];
  sent.header = header;
  sent.header.stamp = stamp_of(state.posted);
  sent.how = how;
  if (is_piece) {
    sent.payload = payload;
  } else {
    sent.copy.assign(payload.begin(), payload.end());
    sent.payload = sent.copy;
  }
  if (post_on(path, channel, sent) == Posted::full) return Posted::full;
  ++state.posted;
  return Posted::posted;
}

// In order: a notice counts when all before it do.
std::uint64_t BondEndpoint::released(std::uint32_t channel) {
  Channel& state = channels_[channel];
  for (; state.released < state.posted; ++state.released) {
    Sent& sent = state.sent[state.released % state.sent.size()];
    Path& path = paths_[sent.path];
    const bool done = sent.taken || (!sent.missing && !path.in_doubt() &&
                                     path.endpoint->released(channel) >= sent.path_number);
    if (!done) break;
    if (!sent.locally_completed) count_completed(path, sent, bond_.now());
  }
  return state.released;
}

Notice BondEndpoint::front(std::uint32_t channel) {
  Channel& state = channels_[channel];
  const std::uint32_t wanted = stamp_of(state.next);
  if (!state.kept.empty()) {
    const auto kept = state.kept.find(wanted);
    if (kept != state.kept.end()) return {&kept->second.header, kept->second.payload.data()};
  }
  do {
    for (std::size_t p = 0; p < paths_.size(); ++p) {
      const Notice notice = front_on(channel, p);
      if (notice.header == nullptr || notice.header->stamp != wanted) continue;
      state.shown = true;
      return notice;
    }
  } while (recovered_ && keep_early(channel));
  return {};
}

void BondEndpoint::release(std::uint32_t channel) {
  Channel& state = channels_[channel];
  const std::uint32_t wanted = stamp_of(state.next);
  ++state.next;
  state.shown = false;
  if (state.kept.erase(wanted) != 0) return;
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    const Notice notice = front_on(channel, p);
    if (notice.header != nullptr && notice.header->stamp == wanted) return release_on(channel, p);
  }
}

std::uint64_t BondEndpoint::arrived(std::uint32_t channel) {
  const Channel& state = channels_[channel];
  std::uint64_t count = state.next + state.kept.size();
  for (std::size_t p = 0; p < paths_.size(); ++p)
    count += std::min(state.bound[p], paths_[p].endpoint->arrived(channel)) - state.taken[p];
  return count;
}

// Notes about paths are not part of the numbered stream: progress() takes them.
Notice BondEndpoint::front_on(std::uint32_t channel, std::size_t path) {
  Channel& state = channels_[channel];
  if (state.taken[path] >= state.bound[path]) return {};
  const Notice notice = paths_[path].endpoint->front(channel);
  if (notice.header == nullptr || notice.header->kind == NoticeKind::path) return {};
  return notice;
}

void BondEndpoint::release_on(std::uint32_t channel, std::size_t path) {
  paths_[path].endpoint->release(channel);
  ++channels_[channel].taken[path];
  paths_[path].generation.took = true;
}

// After a fence a notice may be posted again on a path whose slots are full of later notices. The
// later ones are kept aside, as many as the sender may have unreleased. Returns true if one was.
bool BondEndpoint::keep_early(std::uint32_t channel) {
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (keep_early_on(channel, p)) return true;
  }
  return false;
}

bool BondEndpoint::keep_early_on(std::uint32_t channel, std::size_t path) {
  const Notice notice = front_on(channel, path);
  if (notice.header == nullptr || notice.header->stamp == stamp_of(channels_[channel].next))
    return false;
  return keep(channel, path, notice);
}

bool BondEndpoint::keep(std::uint32_t channel, std::size_t path, const Notice& notice) {
  Channel& state = channels_[channel];
  if (state.kept.size() >= state.sent.size()) return false;
  Kept& kept = state.kept[notice.header->stamp];
  kept.header = *notice.header;
  if (notice.header->form == PieceForm::payload) {
    kept.payload.resize(notice.header->bytes);
    const Status copied = paths_[path].endpoint->copy_payload(kept.payload, notice);
    if (!copied.ok()) {
      state.kept.erase(notice.header->stamp);
      paths_[path].endpoint->abandon(copied);
      return false;
    }
    if (is_in_device_memory(notice))
      kept.header.flags &= static_cast<std::uint8_t>(~kFlagDeviceMemory);
  }
  release_on(channel, path);
  return true;
}

// Keeps aside all notices that have come over a path whose connection ends, except the one that the
// caller is looking at.
void BondEndpoint::keep_aside(std::size_t path) {
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    const Channel& state = channels_[c];
    while (true) {
      const Notice notice = front_on(c, path);
      if (notice.header == nullptr) break;
      if (state.shown && notice.header->stamp == stamp_of(state.next)) break;
      if (!keep(c, path, notice)) break;
    }
  }
}

}  // namespace weft::bond
