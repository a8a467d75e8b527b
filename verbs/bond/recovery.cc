// Giving paths up, and what notes about them mean.
#include "verbs/bond/recovery.h"

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
  return path.retry.back_ns == 0 || path.flow.measured || path.flow.carried != 0;
}

}  // namespace

// Whether the path still has to deliver something.
bool Recovery::owes(const Path& path) const {
  const WorkState work = path.endpoint->work_state();
  return work.ended != work.posted || endpoint_.streams().owes(path) ||
         std::ranges::any_of(endpoint_.paths(), [](const Path& other) {
           return !other.carries_notes() && !other.resolved();  // waits for the answer to a fence
         });
}

// A path on which nothing moves is asked by a probe, and the same question is sent over the other
// paths. If another path brings the answer and this one does not for as long again, this one is
// given up. If none does, the peer is busy, perhaps for hours, and is asked less and less often. A
// piece that has completed locally, or one-sided work that has ended, shows that the path carries.
// A probe that has completed locally shows nothing, because small payloads complete once they are
// copied. A path that is not connected yet is given more time: its neighbor may have to be looked
// up, and the peer may be slow to start.
void Recovery::look_for_silence(Path& path, std::int64_t now) {
  Silence& silence = path.silence;
  const std::int64_t silence_ns =
      (path.flow.connects ? kConnectingPatience : 1) * endpoint_.bond().silence_ns();
  std::uint64_t moved =
      path.endpoint->released(kControlChannel) + path.endpoint->work_state().ended;
  for (std::uint32_t c = kControlChannel + 1; c < endpoint_.bond().options().channels; ++c)
    moved += path.endpoint->released(c) + path.endpoint->locally_completed(c);
  if (silence.moved_ns == 0 || moved != silence.moved || !owes(path) ||
      silence.echoed_ns > silence.probed_ns) {
    silence.moved = moved;
    silence.moved_ns = now;
    silence.forget_questions();
    return;
  }
  const bool is_asked = silence.questions != 0;
  const std::int64_t asked_ns = is_asked ? silence.probed_ns : silence.moved_ns;
  const bool is_answered = is_asked && silence.answered_elsewhere_ns >= silence.probed_ns;
  if (!is_answered && now - asked_ns >= silence_ns << std::min(silence.questions, kMostDoublings)) {
    for (const Path& other : endpoint_.paths()) {
      if (other.live()) endpoint_.notes().say(PathNote::What::probe, path, &other);
    }
    ++silence.questions;
    silence.probed_ns = now;
    silence.is_witnessed = false;
  }
  if (silence.questions == 0 || now - silence.moved_ns < 2 * silence_ns) return;
  if (endpoint_.is_last(path)) return endpoint_.reserve().seek(now);
  if (!is_answered || now - silence.answered_elsewhere_ns < silence_ns) return;
  if (!silence.is_witnessed && now - silence.moved_ns < kPatience * silence_ns) return;
  const Rank peer = endpoint_.peer();
  const std::string why =
      fmt::format("{} carried nothing to rank {} for {} ms, while another rail answers",
                  path.interface->name(), peer, (now - silence.moved_ns) / 1'000'000);
  give_up(path, Status(Code::timed_out, why, peer), Loss::judged);
}

// A path that was only returning has carried nothing of ours; it is tried again later, without a
// line in the log.
void Recovery::give_up(Path& path, const Status& why, Loss loss) {
  if (!path.carries_notes()) return;
  const std::int64_t now = endpoint_.bond().now();
  const bool was_live = path.leave();
  path.endpoint->abandon(why);
  path.lingers |= was_live && path.endpoint->work_may_linger();
  path.retry.try_ns = now + endpoint_.bond().return_ns();
  if (was_live) {
    path.retry.is_reserve = loss != Loss::failed;
    path.retry.wait_ns = endpoint_.comeback().wait_before(path, loss == Loss::judged, now);
    path.retry.try_ns = now + path.retry.wait_ns;
  }
  Reserve& reserve = endpoint_.reserve();
  if (!endpoint_.lives()) return was_live ? reserve.turn_to(why, now) : reserve.look(now);
  if (!was_live) {
    if (!path.resolved()) endpoint_.notes().say(PathNote::What::fence, path, nullptr);
    return;
  }
  // A peer that closes its interfaces one after the other has lost nothing.
  const auto has_left = [](const Path& each) { return each.endpoint->peer_closed(); };
  if (std::ranges::none_of(endpoint_.paths(), has_left)) {
    log(LogLevel::warning,
        fmt::format("path to rank {} over {} given up, its pieces go over the other rails: {}",
                    endpoint_.peer(), path.interface->name(), why.text()));
  }
  ask_open_fences();
}

void Recovery::ask_open_fences() {
  for (const Path& path : endpoint_.paths()) {
    if (!path.live() && !path.resolved())
      endpoint_.notes().say(PathNote::What::fence, path, nullptr);
  }
}

void Recovery::hear(Path& from, const PathNote& note, std::span<const std::byte> told) {
  Path& path = endpoint_.paths()[note.path];
  if (note.what == PathNote::What::fenced) return hear_count(path, note, told);
  if (is_newer(note.generation, path.generation.now))
    endpoint_.comeback().hear_of_future(from, path, note);
  if (note.generation != path.generation.now) {
    // Of an earlier generation one note still matters: the peer asks how much we took in it.
    if (note.what == PathNote::What::fence && !is_newer(note.generation, path.generation.now))
      endpoint_.notes().say_again(note, from);
    return;
  }
  switch (note.what) {
    case PathNote::What::fence:
      return hear_fence(path, from, told);
    case PathNote::What::fenced:
      break;
    case PathNote::What::probe:
      return endpoint_.notes().say(PathNote::What::echo, path, &from);
    case PathNote::What::echo:
      (&from == &path ? path.silence.echoed_ns : path.silence.answered_elsewhere_ns) =
          endpoint_.bond().now();
      path.silence.is_witnessed |= &from != &path && is_witness(from);
      if (&from == &path && path.returning()) endpoint_.comeback().hear_of_proof(path);
  }
}

// The peer has given the path up. Both ends wait as long as the one that found the path slow.
void Recovery::hear_fence(Path& path, const Path& from, std::span<const std::byte> told) {
  FenceWords words;
  if (told.size() >= sizeof words) std::memcpy(&words, told.data(), sizeof words);
  const bool is_reserve = words.is_reserve != 0;
  endpoint_.streams().fence(path);
  path.retry.is_reserve |= is_reserve;
  const Rank peer = endpoint_.peer();
  give_up(path, Status(Code::unavailable, fmt::format("rank {} gave the path up", peer), peer),
          is_reserve ? Loss::unplugged : Loss::failed);
  endpoint_.comeback().wait_as_told(path, words.wait_ns);
  endpoint_.notes().say(PathNote::What::fenced, path, &from);
}

// The peer has counted what it took from the path. What is not in the count is posted again.
void Recovery::hear_count(Path& path, const PathNote& note, std::span<const std::byte> counts) {
  if (path.live() || path.resolved() || note.generation != path.generation.lived ||
      !endpoint_.streams().resolve(path, counts))
    return;
  path.lingers = false;
  path.flow.backlog = path.flow.pieces = 0;
  if (path.state() == PathState::early_proven) return endpoint_.comeback().come_back(path);
  path.enter(path.returning() ? PathState::probing : PathState::counted);
}

}  // namespace weft::bond
