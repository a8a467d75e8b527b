// The data path of a bonded endpoint: numbering, taking by number, posting again.
#include "verbs/bond/streams.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "verbs/bond/interface.h"

namespace weft::bond {
namespace {

std::uint32_t stamp_of(std::uint64_t number) {
  return static_cast<std::uint32_t>(number + 1);
}

}  // namespace

Streams::Streams(BondEndpoint& endpoint, std::uint32_t channels, std::uint32_t slots)
    : endpoint_(endpoint), paths_(endpoint.paths()), channels_(channels) {
  for (Channel& channel : channels_) {
    channel.sent.resize(std::bit_ceil(paths_.size() * slots));
    channel.on.resize(paths_.size());
  }
}

void Streams::count_completions(std::int64_t now) {
  for (std::uint32_t c = 0; c < channels_.size(); ++c) count_completions(c, now);
}

void Streams::count_completions(std::uint32_t channel, std::int64_t now) {
  Channel& state = channels_[channel];
  bool any = false;
  for (const Path& path : paths_) {
    if (path.in_doubt()) continue;
    const std::uint64_t completed = path.endpoint->locally_completed(channel);
    any |= std::exchange(state.on[path.number].locally_completed, completed) != completed;
  }
  if (!any) return;
  for (std::uint64_t n = state.released; n < state.posted; ++n) {
    Sent& sent = state.at(n);
    if (sent.locally_completed || sent.missing || sent.path->in_doubt()) continue;
    if (state.on[sent.path->number].locally_completed >= sent.path_number)
      count_completed(sent, now);
  }
}

void Streams::count_completed(Sent& sent, std::int64_t now) {
  sent.locally_completed = true;
  count_time(*sent.path, now);
  Flow& flow = sent.path->flow;
  flow.backlog -= sent.payload.size();
  if (sent.how == Payload::copied) return;
  flow.carried += sent.payload.size();
  --flow.pieces;
}

Posted Streams::post_on(Path& path, std::uint32_t channel, Sent& sent) {
  sent.header.path = static_cast<std::uint16_t>(path.number);
  if (path.endpoint->post(channel, sent.header, sent.payload, sent.how) == Posted::full)
    return Posted::full;
  const std::int64_t now = endpoint_.bond().now();
  count_time(path, now);
  if (path.flow.backlog == 0) path.silence.moved_ns = now;
  if (sent.how == Payload::lent) ++path.flow.pieces;
  path.flow.backlog += sent.payload.size();
  sent.path = &path;
  sent.path_number = path.endpoint->posted(channel);
  sent.taken = sent.missing = sent.locally_completed = false;
  return Posted::posted;
}

Posted Streams::post(std::uint32_t channel, const WireHeader& header,
                     std::span<const std::byte> payload, Payload how) {
  Channel& state = channels_[channel];
  if (!endpoint_.failure().ok() || missing_ != 0) return Posted::full;
  const std::int64_t now = endpoint_.bond().now();
  count_completions(channel, now);
  endpoint_.selector().measure(now);
  if (state.posted - released(channel) == state.sent.size()) return Posted::full;
  const bool is_piece = how == Payload::lent;
  Path* path = is_piece ? endpoint_.selector().preferred(channel, now) : nullptr;
  if (path == nullptr) path = endpoint_.selector().choose(payload.size(), now);
  if (path == nullptr) return Posted::full;
  // Pieces under way may take half of a path's slots. The other half is for pieces that have come
  // and wait for earlier ones on a slower path.
  const std::uint64_t most = endpoint_.bond().options().slots / 2 * endpoint_.bond().piece_bytes();
  if (is_piece && path->flow.backlog + payload.size() > most) {
    // The backlog is that of all channels. If this channel is the only one that still posts, the
    // pieces of the others have to be counted here.
    count_completions(now);
    if (path->flow.backlog + payload.size() > most) return Posted::full;
  }
  Sent& sent = state.at(state.posted);
  sent.header = header;
  sent.header.stamp = stamp_of(state.posted);
  sent.how = how;
  if (is_piece) {
    sent.payload = payload;
  } else {
    sent.copy.assign(payload.begin(), payload.end());
    sent.payload = sent.copy;
  }
  if (post_on(*path, channel, sent) == Posted::full) return Posted::full;
  ++state.posted;
  return Posted::posted;
}

// In order: a notice counts when all before it do.
std::uint64_t Streams::released(std::uint32_t channel) {
  Channel& state = channels_[channel];
  for (; state.released < state.posted; ++state.released) {
    Sent& sent = state.at(state.released);
    const Path& path = *sent.path;
    const bool done = sent.taken || (!sent.missing && !path.in_doubt() &&
                                     path.endpoint->released(channel) >= sent.path_number);
    if (!done) break;
    if (!sent.locally_completed) count_completed(sent, endpoint_.bond().now());
  }
  return state.released;
}

bool Streams::owes(const Path& path) const {
  return std::ranges::any_of(channels_, [&path](const Channel& state) {
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      const Sent& sent = state.at(n);
      if (sent.path == &path && !sent.taken && !sent.missing) return true;
    }
    return false;
  });
}

Notice Streams::front(std::uint32_t channel) {
  Channel& state = channels_[channel];
  const std::uint32_t wanted = stamp_of(state.next);
  if (!state.kept.empty()) {
    const auto kept = state.kept.find(wanted);
    if (kept != state.kept.end()) return {&kept->second.header, kept->second.payload.data()};
  }
  const auto keeps = [&](Path& path) { return keep_early(channel, path); };
  do {
    for (const Path& path : paths_) {
      const Notice notice = front_on(channel, path);
      if (notice.header == nullptr || notice.header->stamp != wanted) continue;
      state.shown = true;
      return notice;
    }
  } while (recovered_ && std::ranges::any_of(paths_, keeps));
  return {};
}

void Streams::release(std::uint32_t channel) {
  Channel& state = channels_[channel];
  const std::uint32_t wanted = stamp_of(state.next);
  ++state.next;
  state.shown = false;
  if (state.kept.erase(wanted) != 0) return;
  for (Path& path : paths_) {
    const Notice notice = front_on(channel, path);
    if (notice.header != nullptr && notice.header->stamp == wanted)
      return release_on(channel, path);
  }
}

std::uint64_t Streams::arrived(std::uint32_t channel) {
  const Channel& state = channels_[channel];
  std::uint64_t count = state.next + state.kept.size();
  for (const Path& path : paths_) {
    const OnPath& on = state.on[path.number];
    count += std::min(on.bound, path.endpoint->arrived(channel)) - on.taken;
  }
  return count;
}

// Notes about paths are not part of the numbered stream.
Notice Streams::front_on(std::uint32_t channel, const Path& path) const {
  const OnPath& on = channels_[channel].on[path.number];
  if (on.taken >= on.bound) return {};
  const Notice notice = path.endpoint->front(channel);
  if (notice.header == nullptr || notice.header->kind == NoticeKind::path) return {};
  return notice;
}

void Streams::release_on(std::uint32_t channel, Path& path) {
  path.endpoint->release(channel);
  ++channels_[channel].on[path.number].taken;
  path.generation.took = true;
}

Notice Streams::next_note(Path& path) {
  const OnPath& control = channels_[kControlChannel].on[path.number];
  while (control.taken < control.bound) {
    const Notice notice = path.endpoint->front(kControlChannel);
    if (notice.header == nullptr || notice.header->kind == NoticeKind::path) return notice;
    if (!keep_early(kControlChannel, path)) break;
  }
  return {};
}

void Streams::release_note(Path& path) {
  path.endpoint->release(kControlChannel);
  ++channels_[kControlChannel].on[path.number].taken;
}

// After a fence a notice may be posted again on a path whose slots are full of later notices. The
// later ones are kept aside, as many as the sender may have unreleased. Returns true if one was.
bool Streams::keep_early(std::uint32_t channel, Path& path) {
  const Notice notice = front_on(channel, path);
  if (notice.header == nullptr || notice.header->stamp == stamp_of(channels_[channel].next))
    return false;
  return keep(channel, path, notice);
}

bool Streams::keep(std::uint32_t channel, Path& path, const Notice& notice) {
  Channel& state = channels_[channel];
  if (state.kept.size() >= state.sent.size()) return false;
  Kept& kept = state.kept[notice.header->stamp];
  kept.header = *notice.header;
  if (notice.header->form == PieceForm::payload) {
    kept.payload.resize(notice.header->bytes);
    const Status copied = path.endpoint->copy_payload(kept.payload, notice);
    if (!copied.ok()) {
      state.kept.erase(notice.header->stamp);
      path.endpoint->abandon(copied);
      return false;
    }
    if (is_in_device_memory(notice))
      kept.header.flags &= static_cast<std::uint8_t>(~kFlagDeviceMemory);
  }
  release_on(channel, path);
  return true;
}

void Streams::keep_aside(Path& path) {
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

bool Streams::is_drained(const Path& path) const {
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    const OnPath& on = channels_[c].on[path.number];
    if (on.taken < std::min(on.bound, path.endpoint->arrived(c))) return false;
  }
  return true;
}

void Streams::fence(const Path& path) {
  if (is_fenced(path)) return;
  for (std::uint32_t c = 0; c < channels_.size(); ++c)
    channels_[c].on[path.number].bound = path.endpoint->arrived(c);
  recovered_ = true;
}

std::vector<std::uint64_t> Streams::taken_in(const Path& path, std::uint16_t generation) const {
  std::vector<std::uint64_t> counts;
  for (const Channel& state : channels_) {
    const OnPath& on = state.on[path.number];
    counts.push_back(generation == path.generation.now      ? on.bound
                     : generation == path.generation.before ? on.before
                                                            : 0);
  }
  return counts;
}

bool Streams::resolve(const Path& path, std::span<const std::byte> counts) {
  if (counts.size() != channels_.size() * sizeof(std::uint64_t)) return false;
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    std::uint64_t taken = 0;
    std::memcpy(&taken, counts.data() + c * sizeof taken, sizeof taken);
    Channel& state = channels_[c];
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      Sent& sent = state.at(n);
      if (sent.path != &path || sent.taken || sent.missing) continue;
      (sent.path_number <= taken ? sent.taken : sent.missing) = true;
      sent.locally_completed = true;  // the path carries nothing any more
      missing_ += sent.missing ? 1 : 0;
    }
  }
  return true;
}

void Streams::post_missing() {
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    Channel& state = channels_[c];
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      Sent& sent = state.at(n);
      if (!sent.missing) continue;
      Path* const path = endpoint_.selector().choose(sent.payload.size(), endpoint_.bond().now());
      if (path == nullptr || post_on(*path, c, sent) == Posted::full) break;
      --missing_;
    }
  }
}

void Streams::begin_anew(Path& path) {
  // If the connection carried only notes about paths, the peer does not ask how much was taken from
  // it.
  const bool took = std::exchange(path.generation.took, false);
  if (took) path.generation.before = path.generation.now;
  for (Channel& state : channels_) {
    OnPath& on = state.on[path.number];
    on = {.before = took ? on.taken : on.before};
  }
  recovered_ = true;
}

void Streams::check() const {
  std::size_t missing = 0;
  std::vector<std::uint64_t> backlog(paths_.size());
  std::vector<std::uint32_t> pieces(paths_.size());
  for (const Channel& state : channels_) {
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      const Sent& sent = state.at(n);
      invariant(!(sent.taken && sent.missing), "what the peer took is not missing");
      invariant(!sent.missing || sent.locally_completed, "what is missing is under way nowhere");
      missing += sent.missing ? 1 : 0;
      if (sent.locally_completed) continue;
      backlog[sent.path->number] += sent.payload.size();
      pieces[sent.path->number] += sent.how == Payload::lent ? 1 : 0;
    }
  }
  invariant(missing == missing_, "what is missing is counted");
  for (const Path& path : paths_) {
    invariant(path.flow.backlog == backlog[path.number],
              "a backlog is what was posted and has not completed locally");
    invariant(path.flow.pieces == pieces[path.number], "pieces under way are counted");
    if (!is_fenced(path)) continue;
    invariant(path.state() == PathState::lost || path.state() == PathState::counted,
              "a fence ends with the connection that it was about");
    for (const Channel& state : channels_)
      invariant(state.on[path.number].taken <= state.on[path.number].bound,
                "nothing is taken behind a fence");
  }
}

}  // namespace weft::bond
