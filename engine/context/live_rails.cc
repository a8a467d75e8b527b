// live_rails: see the header.
#include "engine/context/live_rails.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace weft {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
// Of calls, as plans have more than one turn from about here.
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;
// Looking asks each path.
constexpr std::int64_t kLookNs = 20 * kNsPerMs;
// For so long a rail must have been out, or back. A cable that is loose thus causes no round after the other.
constexpr std::int64_t kOutNs = 50 * kNsPerMs;
constexpr std::int64_t kBackNs = 1000 * kNsPerMs;
// From the first try to get addresses to the next, and then twice as long each time.
constexpr std::int64_t kLearnNs = 50 * kNsPerMs;
constexpr std::int64_t kMostLearnNs = 10'000 * kNsPerMs;
// The last words of a rank that has gone may still be on their way.
constexpr std::int64_t kLastWordsNs = 20 * kNsPerMs;

}  // namespace

bool LiveRails::concerns(const Request& request) const {
  return request.collective == Collective::allreduce && config_.size >= 3 &&
         config_.size <= kMostRanks && bits_of(request, config_.bits) != Bits::fixed &&
         request.compression == Compression::none &&
         request.input.count * size_of(request.input.type) >= kLeastBytes &&
         config_.transports.networks();
}

Status LiveRails::settle() {
  if (holds()) {
    const std::int64_t end_ns = now_ns() + config_.deadline_ms * kNsPerMs;
    lane_.drive_until([&] { return !lane_.failure().ok() || !holds() || now_ns() >= end_ns; },
                      end_ns);
    if (!lane_.failure().ok()) return lane_.failure();
    if (holds_) return unanswered();
  }
  return adopt();
}

bool LiveRails::holds() {
  advance();
  if (holds_) check_awaited();
  return holds_;
}

std::vector<Rank> LiveRails::awaited() const {
  return config_.rank == 0 ? asked_ : std::vector<Rank>{0};
}

// No operation runs that would notice it.
void LiveRails::check_awaited() {
  const std::int64_t now = now_ns();
  if (now < next_check_ns_) return;
  next_check_ns_ = now + kNsPerMs;
  const std::vector<Rank> ranks = awaited();
  const auto gone = std::ranges::find_if(ranks, around_.is_gone);
  if (gone == ranks.end()) {
    gone_ns_ = 0;
    return;
  }
  if (gone_ns_ == 0) gone_ns_ = now;
  if (now - gone_ns_ < kLastWordsNs) return;
  around_.fail(
      Status(Code::peer_left,
             fmt::format("allreduce: rank {} closed its context while this rank needed it", *gone),
             *gone));
}

void LiveRails::advance() {
  if (!lane_.failure().ok()) return;
  if (settled_ != 0) look();
  send();
}

Status LiveRails::adopt() {
  const std::uint64_t number = lane_.admission().number_of_next_call();
  while (!changes_to_come_.empty() && changes_to_come_.front().number <= number) {
    WEFT_RETURN_IF_ERROR(use(changes_to_come_.front().left));
    changes_to_come_.pop_front();
  }
  settled_ = number + 1;
  return {};
}

// A rail that works to a few peers only is out: it is this rank's end that most of them have in common.
std::uint8_t LiveRails::find_left() const {
  struct Rail {
    int paths = 0, lost = 0;
  };
  std::map<std::string, Rail> rails;
  for (const auto& [rank, connection] : peers_.all()) {
    for (const PathReport& report : connection->endpoint->path_reports()) {
      Rail& rail = rails[report.rail];
      ++rail.paths;
      if (!report.lives) ++rail.lost;
    }
  }
  if (rails.size() < 2) return 0;
  const bool are_rates_known =
      std::ranges::none_of(rails_, [](const RailRecord& each) { return each.mbit_per_s <= 0; });
  double all = 0, left = 0;
  for (const auto& [name, rail] : rails) {
    const auto is_it = [&name](const RailRecord& each) {
      return fmt::format("{}:{}", each.kind, each.interface) == name;
    };
    const auto record = std::ranges::find_if(rails_, is_it);
    const double rate = are_rates_known && record != rails_.end() ? record->mbit_per_s : 1;
    all += rate;
    if (2 * rail.lost <= rail.paths) left += rate;
  }
  if (left == 0) return kWhole;  // the rank is cut off, which ends operations by itself
  return static_cast<std::uint8_t>(std::max(1L, std::lround(left / all * kWhole)));
}

void LiveRails::look() {
  const std::int64_t now = now_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + kLookNs;
  const std::uint8_t left = find_left();
  if (left == 0) return;
  learn(now, left == kWhole);
  if (left != seen_) {
    seen_ = left;
    seen_ns_ = now;
  }
  if (seen_ == told_ || now - seen_ns_ < (seen_ < told_ ? kOutNs : kBackNs)) return;
  if (!knows_all_ && seen_ != kWhole) return;
  told_ = seen_;
  if (config_.rank == 0) {
    note_left(0, told_);
  } else {
    Note note{Say::left, 0, 0, {}};
    note.left.front() = told_;
    tell(0, note);
  }
}

// Without a thread, a rank that is outside of Weft would leave those waiting that are held back.
void LiveRails::learn(std::int64_t now, bool may_ask) {
  if (config_.progress != ProgressMode::thread) return;
  const bool knew_all =
      std::exchange(knows_all_, around_.knows_all(may_ask && now >= next_learn_ns_));
  if (knows_all_) {
    learn_pause_ns_ = 0;
    if (!knew_all && config_.rank == 0 && asked_.empty()) ask();
  } else if (may_ask && now >= next_learn_ns_) {
    learn_pause_ns_ = std::clamp(2 * learn_pause_ns_, kLearnNs, kMostLearnNs);
    next_learn_ns_ = now_ns() + learn_pause_ns_;
  }
}

void LiveRails::hear(Rank from, const Notice& notice) {
  Note note;
  if (config_.size > kMostRanks) return;
  if (notice.header->form != PieceForm::payload || notice.header->bytes != sizeof note) return;
  std::memcpy(&note, notice.payload, sizeof note);
  const bool is_leader = config_.rank == 0;
  switch (note.say) {
    case Say::left:
      if (is_leader) note_left(from, note.left.front());
      break;
    case Say::answer:
      if (is_leader && note.round == round_) count(from, note.number, note.left.front() != 0);
      break;
    case Say::ask:
      if (is_leader || from != 0) break;
      holds_ = true;
      round_ = note.round;
      tell(0, {Say::answer, round_, next_number(), {static_cast<std::uint8_t>(knows_all_)}});
      break;
    case Say::begin:
      if (is_leader || from != 0 || note.round != round_ || !holds_) break;
      for (std::uint8_t& each : note.left) each = std::clamp<std::uint8_t>(each, 1, kWhole);
      holds_ = false;
      if (note.number != kNever) changes_to_come_.push_back({note.number, note.left});
      break;
  }
}

// The number of a call that has been settled, and is bound next, is taken already.
std::uint64_t LiveRails::next_number() const {
  return std::max(settled_, lane_.admission().number_of_next_call());
}

void LiveRails::note_left(Rank rank, std::uint8_t left) {
  left_[static_cast<std::size_t>(rank)] = std::clamp<std::uint8_t>(left, 1, kWhole);
  if (asked_.empty()) ask();
}

void LiveRails::ask() {
  if (left_ == begun_ || (!knows_all_ && left_ != whole())) return;
  holds_ = true;
  ++round_;
  highest_ = next_number();
  can_all_ = knows_all_;
  for (Rank rank = 1; rank < config_.size; ++rank) asked_.push_back(rank);
  tell_others({Say::ask, round_, 0, {}});
}

void LiveRails::count(Rank from, std::uint64_t number, bool can) {
  if (std::erase(asked_, from) == 0) return;
  highest_ = std::max(highest_, number);
  can_all_ &= can;
  if (!asked_.empty()) return;
  begun_ = left_;
  const bool begins = can_all_ || begun_ == whole();  // whose plans have no edges that are new
  tell_others({Say::begin, round_, begins ? highest_ : kNever, begun_});
  holds_ = false;
  if (begins) changes_to_come_.push_back({highest_, begun_});
  ask();  // what has changed meanwhile
}

Status LiveRails::use(const Left& left) {
  std::vector<double> parts;
  for (Rank rank = 0; rank < config_.size; ++rank)
    parts.push_back(static_cast<double>(left[static_cast<std::size_t>(rank)]) / kWhole);
  ++changes_;
  log(LogLevel::info,
      fmt::format("large all-reduces are planned for what is left of the ranks' rails: {:.2f}",
                  fmt::join(parts, ", ")));
  if (left == whole()) parts.clear();
  WEFT_RETURN_IF_ERROR(machines_.set_left(std::move(parts)));
  lane_.forget_bound();
  return {};
}

void LiveRails::tell_others(const Note& note) {
  for (Rank rank = 1; rank < config_.size; ++rank) tell(rank, note);
}

void LiveRails::tell(Rank to, const Note& note) {
  waiting_.push_back({to, note});
  send();
}

void LiveRails::send() {
  std::vector<Rank> full;  // notices to one rank stay in order
  std::erase_if(waiting_, [&](const Waiting& each) {
    if (std::ranges::find(full, each.to) != full.end()) return false;
    if (post(each)) return true;
    full.push_back(each.to);
    return false;
  });
}

// As with queries, at most one of these to a peer is unreleased, so that its control channel has room for a
// failure notice. The peer's address is known, so connecting does not wait.
bool LiveRails::post(const Waiting& waiting) {
  const Result<PeerConnection*> peer = peers_.connection(waiting.to);
  if (!peer.ok()) {
    around_.fail(peer.status());
    return true;
  }
  Endpoint& endpoint = *(*peer)->endpoint;
  if (endpoint.posted(kControlChannel) != endpoint.released(kControlChannel)) return false;
  WireHeader header;
  header.kind = NoticeKind::rails;
  header.form = PieceForm::payload;
  header.job = job_;
  header.context = context_;
  header.bytes = sizeof(Note);
  const auto payload = std::as_bytes(std::span(&waiting.note, 1));
  return endpoint.post_notice(kControlChannel, header, payload) != Posted::full;
}

Status LiveRails::unanswered() const {
  const std::vector<Rank> silent = awaited();
  return Status(
      Code::timed_out,
      fmt::format("allreduce: rank {} waited {} ms ({}) for rank {} to agree on what is left "
                  "of the rails",
                  config_.rank, config_.deadline_ms, config_.deadline_name,
                  fmt::join(silent, ", ")),
      silent.front());
}

}  // namespace weft
