// A path that is given up: fencing it, and posting again what it did not deliver.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/bond/interface.h"

namespace weft::bond {

namespace {

// The time between two questions doubles at most so often. In the end a peer that answers nothing
// is asked about once a minute.
constexpr int kMostDoublings = 7;
// A path may be silent kConnectingPatience times longer before it is connected, and kPatience times
// longer while no other path is known to carry.
constexpr std::int64_t kConnectingPatience = 10;
constexpr std::int64_t kPatience = 4;

// Whether an answer over this path is evidence that another path, which does not answer, carries
// nothing. If a path has come back, its answers count only after it has carried pieces itself.
// Otherwise two slow paths would be given up in turns, without end: what one of them had half
// carried would begin anew on the other.
bool is_witness(const Path& path) {
  return path.comeback.back_ns == 0 || path.flow.measured || path.flow.carried != 0;
}

// Whether a note about a fence says that nothing failed on the path (the word behind the wait).
bool is_told_to_stand(std::span<const std::byte> told) {
  std::uint64_t stands = 0;
  if (told.size() < 2 * sizeof stands) return false;
  std::memcpy(&stands, told.data() + sizeof stands, sizeof stands);
  return stands != 0;
}

}  // namespace

bool BondEndpoint::progress() {
  bool news = take_notes();
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (!carries_notes(p) || paths_[p].endpoint->failure().ok()) continue;
    give_up(p, paths_[p].endpoint->failure());
    news = true;
  }
  if (missing_ != 0) {
    post_missing();
    news |= missing_ == 0;  // there may be room again
  }
  if (!notes_.empty()) send_notes();
  return news;
}

void BondEndpoint::look(std::int64_t now) {
  for (std::uint32_t c = 0; c < channels_.size(); ++c) count_completions(channels_[c], c, now);
  measure(now);
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (!paths_[p].live()) {
      look_for_return(p, now);
    } else if (const Status& link = bond_.link_of(*paths_[p].interface); !link.ok()) {
      is_last(p) ? seek_reserve(now) : give_up(p, link, Loss::unplugged);
    } else {
      look_for_silence(p, now);
      if (!is_last(p)) look_for_slowness(p, now);
    }
  }
  look_for_ports(now);
  look_for_reserve(now);
}

bool BondEndpoint::waits_for_a_fence() const {
  return std::ranges::any_of(paths_, [](const Path& path) {
    return !path.live() && !path.returning() && !path.resolved();
  });
}

// Whether the path still has to deliver something.
bool BondEndpoint::owes(std::size_t path) const {
  const WorkState work = paths_[path].endpoint->work_state();
  if (work.ended != work.posted || waits_for_a_fence()) return true;
  return std::ranges::any_of(channels_, [path](const Channel& state) {
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      const Sent& sent = state.sent[n % state.sent.size()];
      if (sent.path == path && !sent.taken && !sent.missing) return true;
    }
    return false;
  });
}

// A path on which nothing moves is asked by a probe, and the same question is sent over the other
// paths. If another path brings the answer and this one does not for as long again, this one is
// given up. If none does, the peer is busy, perhaps for hours, and is asked less and less often. A
// piece that has completed locally, or one-sided work that has ended, shows that the path carries.
// A probe that has completed locally shows nothing, because small payloads complete once they are
// copied. A path that is not connected yet is given more time: its neighbor may have to be looked
// up, and the peer may be slow to start.
void BondEndpoint::look_for_silence(std::size_t index, std::int64_t now) {
  Path& path = paths_[index];
  const std::int64_t silence_ns =
      (path.flow.connects ? kConnectingPatience : 1) * bond_.options().silence_ms * 1'000'000;
  std::uint64_t moved =
      path.endpoint->released(kControlChannel) + path.endpoint->work_state().ended;
  for (std::uint32_t c = kControlChannel + 1; c < channels_.size(); ++c)
    moved += path.endpoint->released(c) + path.endpoint->locally_completed(c);
  const bool is_first = path.silence.moved_ns == 0;
  if (is_first || moved != path.silence.moved || !owes(index) ||
      path.silence.echoed_ns > path.silence.probed_ns) {
    path.silence.moved = moved;
    path.silence.moved_ns = now;
    path.silence.forget_questions();
    return;
  }
  const std::int64_t asked_ns =
      path.silence.questions == 0 ? path.silence.moved_ns : path.silence.probed_ns;
  const bool is_answered =
      path.silence.questions != 0 && path.silence.answered_elsewhere_ns >= path.silence.probed_ns;
  if (!is_answered && now - asked_ns >= silence_ns
                                            << std::min(path.silence.questions, kMostDoublings)) {
    for (std::size_t p = 0; p < paths_.size(); ++p) {
      if (paths_[p].live()) say(PathNote::What::probe, index, p);
    }
    ++path.silence.questions;
    path.silence.probed_ns = now;
    path.silence.is_witnessed = false;
  }
  if (path.silence.questions == 0 || now - path.silence.moved_ns < 2 * silence_ns) return;
  if (is_last(index)) return seek_reserve(now);
  if (!is_answered || now - path.silence.answered_elsewhere_ns < silence_ns) return;
  if (!path.silence.is_witnessed && now - path.silence.moved_ns < kPatience * silence_ns) return;
  give_up(
      index,
      Status(Code::timed_out,
             fmt::format("{} carried nothing to rank {} for {} ms, while another rail "
                         "answers",
                         path.interface->name(), peer(), (now - path.silence.moved_ns) / 1'000'000),
             peer()),
      Loss::judged);
}

// A path that was only returning has carried nothing of ours; it is tried again later, without a
// line in the log.
void BondEndpoint::give_up(std::size_t index, const Status& why, Loss loss) {
  if (!carries_notes(index)) return;
  Path& path = paths_[index];
  const std::int64_t now = bond_.now();
  const bool was_live = path.leave();
  path.endpoint->abandon(why);
  path.lingers |= was_live && path.endpoint->work_may_linger();
  path.comeback.try_ns = now + bond_.options().return_ms * 1'000'000;
  if (was_live) {
    path.comeback.stands = loss != Loss::failed;
    path.comeback.wait_ns = wait_before_return(path, loss == Loss::judged, now);
    path.comeback.try_ns = now + path.comeback.wait_ns;
  }
  if (!lives()) return was_live ? turn_to_reserve(why, now) : look_for_reserve(now);
  if (!was_live) {
    if (!path.resolved()) say(PathNote::What::fence, index, kNowhere);
    return;
  }
  // A peer that closes its interfaces one after the other has lost nothing.
  const auto has_left = [](const Path& each) { return each.endpoint->peer_closed(); };
  if (std::ranges::none_of(paths_, has_left)) {
    log(LogLevel::warning,
        fmt::format("path to rank {} over {} given up, its pieces go over the other "
                    "rails: {}",
                    peer(), path.interface->name(), why.text()));
  }
  ask_open_fences();
}

// Sends all fences again that were not answered, because their notes may have gone over a path that
// has failed since.
void BondEndpoint::ask_open_fences() {
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    if (!paths_[p].live() && !paths_[p].resolved()) say(PathNote::What::fence, p, kNowhere);
  }
}

// Takes the notes about paths that stand at the front of the control channels. A notice of the
// stream that stands before them and whose turn has not come is kept aside: the notice before it
// may be lost, and the fence that brings it again would wait behind this one.
bool BondEndpoint::take_notes() {
  bool news = false;
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    Channel& control = channels_[kControlChannel];
    while (control.taken[p] < control.bound[p]) {
      const Notice notice = paths_[p].endpoint->front(kControlChannel);
      if (notice.header == nullptr) break;
      if (notice.header->kind != NoticeKind::path) {
        if (keep_early_on(kControlChannel, p)) continue;
        break;
      }
      std::vector<std::byte> text;
      if (notice.header->form == PieceForm::payload) {
        const std::size_t bytes = std::min<std::size_t>(notice.header->bytes, kControlBytes);
        text.assign(notice.payload, notice.payload + bytes);
      }
      paths_[p].endpoint->release(kControlChannel);
      ++control.taken[p];
      news = true;
      PathNote note;
      if (text.size() < sizeof note) continue;
      std::memcpy(&note, text.data(), sizeof note);
      if (note.path < paths_.size()) handle(p, note, std::span(text).subspan(sizeof note));
    }
  }
  return news;
}

void BondEndpoint::handle(std::size_t from, const PathNote& note,
                          std::span<const std::byte> counts) {
  Path& path = paths_[note.path];
  if (note.what == PathNote::What::fenced) return resolve(note, counts);
  if (is_newer(note.generation, path.generation.now)) hear_of_future(from, note);
  if (note.generation != path.generation.now) return hear_of_past(from, note);
  switch (note.what) {
    case PathNote::What::fence:
      fence(note.path);
      path.comeback.stands |= is_told_to_stand(counts);
      give_up(note.path,
              Status(Code::unavailable, fmt::format("rank {} gave the path up", peer()), peer()),
              is_told_to_stand(counts) ? Loss::unplugged : Loss::failed);
      wait_as_told(note.path, counts);
      say(PathNote::What::fenced, note.path, from);
      break;
    case PathNote::What::fenced:
      break;
    case PathNote::What::probe:
      say(PathNote::What::echo, note.path, from);
      break;
    case PathNote::What::echo:
      (from == note.path ? path.silence.echoed_ns : path.silence.answered_elsewhere_ns) =
          bond_.now();
      path.silence.is_witnessed |= from != note.path && is_witness(paths_[from]);
      if (from == note.path && path.returning()) hear_of_proof(note.path);
      break;
  }
}

// The notices that have arrived completely over the path will be taken in their turn. What the path
// delivers from now on will not be taken.
void BondEndpoint::fence(std::size_t path) {
  if (is_fenced(path)) return;
  for (std::uint32_t c = 0; c < channels_.size(); ++c)
    channels_[c].bound[path] = paths_[path].endpoint->arrived(c);
  recovered_ = true;
}

// The peer has counted what it took from the path. What is not in the count is posted again.
void BondEndpoint::resolve(const PathNote& note, std::span<const std::byte> counts) {
  const std::size_t path = note.path;
  if (paths_[path].live() || paths_[path].resolved() ||
      note.generation != paths_[path].generation.lived ||
      counts.size() != channels_.size() * sizeof(std::uint64_t))
    return;
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    std::uint64_t taken = 0;
    std::memcpy(&taken, counts.data() + c * sizeof taken, sizeof taken);
    Channel& state = channels_[c];
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      Sent& sent = state.sent[n % state.sent.size()];
      if (sent.path != path || sent.taken || sent.missing) continue;
      (sent.path_number <= taken ? sent.taken : sent.missing) = true;
      sent.locally_completed = true;  // the path carries nothing any more
      missing_ += sent.missing ? 1 : 0;
    }
  }
  Path& counted = paths_[path];
  counted.lingers = false;
  counted.flow.backlog = counted.flow.pieces = 0;
  if (counted.state() == PathState::early_proven) return come_back(path);
  counted.enter(counted.returning() ? PathState::probing : PathState::counted);
}

void BondEndpoint::post_missing() {
  for (std::uint32_t c = 0; c < channels_.size(); ++c) {
    Channel& state = channels_[c];
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      Sent& sent = state.sent[n % state.sent.size()];
      if (!sent.missing) continue;
      const std::size_t path = choose(sent.payload.size(), bond_.now());
      if (path == kNowhere || post_on(path, c, sent) == Posted::full) break;
      --missing_;
    }
  }
}

void BondEndpoint::say(PathNote::What what, std::size_t path, std::size_t over) {
  const Path& about = paths_[path];
  const std::uint16_t generation =
      what == PathNote::What::fence ? about.generation.lived : about.generation.now;
  notes_.push_back({{what, static_cast<std::uint16_t>(path), generation}, over});
}

void BondEndpoint::send_notes() {
  for (std::size_t left = notes_.size(); left != 0; --left) {
    const Note note = notes_.front();
    notes_.pop_front();
    const bool any = note.over == kNowhere ||
                     (note.note.what == PathNote::What::fenced && !carries_notes(note.over));
    const std::size_t over = any ? choose(0, bond_.now()) : note.over;
    if (over == kNowhere || !carries_notes(over)) continue;
    std::vector<std::byte> text(sizeof note.note);
    std::memcpy(text.data(), &note.note, sizeof note.note);
    const std::size_t p = note.note.path;
    const auto add = [&text](const auto& word) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&word);
      text.insert(text.end(), bytes, bytes + sizeof(std::uint64_t));
    };
    if (note.note.what == PathNote::What::fence) {
      add(paths_[p].comeback.wait_ns);
      add(static_cast<std::uint64_t>(paths_[p].comeback.stands));
    }
    if (note.note.what == PathNote::What::fenced) {
      for (const Channel& state : channels_) {
        const std::uint64_t taken =
            note.note.generation == paths_[p].generation.now      ? state.bound[p]
            : note.note.generation == paths_[p].generation.before ? state.before[p]
                                                                  : 0;
        add(taken);
      }
    }
    WireHeader header;
    header.kind = NoticeKind::path;
    header.form = PieceForm::payload;
    header.bytes = static_cast<std::uint32_t>(text.size());
    if (paths_[over].endpoint->post_notice(kControlChannel, header, text) == Posted::full)
      notes_.push_back(note);
  }
}

void BondEndpoint::abandon(const Status& why) {
  if (failure_.ok()) fail(why);
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

}  // namespace weft::bond
