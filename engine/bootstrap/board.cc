// board: what each request does to the table, and which ranks get replies and events. A wait that
// can no longer succeed is answered at once, with the rank at fault.
#include "engine/bootstrap/board.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bootstrap/missing.h"

namespace weft {
namespace {

constexpr std::size_t kMostStrangers = 4;      // how many an error names
constexpr std::size_t kLongestFailure = 2048;  // the most bytes of a rank's reason to leave

}  // namespace

Board::Board(int size, Outbox& outbox)
    : outbox_(outbox), members_(static_cast<std::size_t>(size)) {}

Status Board::may_join(Rank rank, bool returns) const {
  if (!in_range(rank)) {
    return Status(Code::mismatch,
                  fmt::format("rank {} does not exist in a job of {} ranks", rank, size()));
  }
  switch (member(rank).seat) {
    case Seat::expected:
      return {};
    case Seat::present:
      if (returns) {
        return Status(
            Code::unavailable,
            fmt::format("rank {} is in the job; another one may take its place when it is gone",
                        rank),
            rank);
      }
      return Status(Code::mismatch, fmt::format("rank {} has joined already", rank), rank);
    case Seat::left:
      if (is_over() || returns) return {};
      if (std::ranges::none_of(members_, [](const Member& m) { return m.seat == Seat::died; })) {
        return not_yet(rank);
      }
      break;
    case Seat::died:
      if (returns && !member(rank).was_refused) return {};
      break;
  }
  return Status(
      Code::mismatch,
      fmt::format(
          "rank {} was in this job before and is gone; a new job needs a new rendezvous, and with "
          "WEFT_ON_DEATH=skip a rank may come back",
          rank),
      rank);
}

void Board::join(Rank rank) {
  invariant(may_join(rank, true).ok(), "only a rank that may join joins");
  if (is_over()) start_anew();
  Member& joiner = member(rank);
  const bool returns = joiner.seat != Seat::expected;
  if (returns) {
    const int incarnation = next_incarnation(rank);
    joiner = Member();
    joiner.incarnation = incarnation;
  }
  joiner.seat = Seat::present;
  ++present_;
  std::erase(gone_in_order_, rank);
  for (Rank other = 0; other < size(); ++other) {
    const bool has_returned = is_present(other) && member(other).incarnation != 0;
    if (other != rank && has_returned) outbox_.event(rank, event_of(other));
    if (other != rank && returns && is_present(other)) outbox_.event(other, event_of(rank));
  }
  for (const Rank other : gone_in_order_) outbox_.event(rank, event_of(other));
}

int Board::next_incarnation(Rank rank) const {
  const Member& m = member(rank);
  return m.seat == Seat::expected || is_over() ? 0 : m.incarnation + 1;
}

Status Board::not_yet(Rank rank) const {
  std::vector<Rank> staying;
  for (Rank other = 0; other < size(); ++other) {
    if (member(other).seat != Seat::left) staying.push_back(other);
  }
  return Status(Code::unavailable,
                fmt::format("rank {} has left; it may join again when {} left too", rank,
                            list_ranks(staying) + (staying.size() == 1 ? " has" : " have")));
}

int Board::expected() const {
  return static_cast<int>(std::ranges::count(members_, Seat::expected, &Member::seat));
}

bool Board::is_over() const {
  return std::ranges::all_of(members_, [](const Member& m) { return m.seat == Seat::left; });
}

// Empties the board. If the process of a rank has ended since the rank left, the rank counts as
// dead from the start, because it will not join again.
void Board::start_anew() {
  std::vector<Member> before(members_.size());
  before.swap(members_);
  values_.clear();
  stored_bytes_ = 0;
  gone_in_order_.clear();
  for (Rank rank = 0; rank < size(); ++rank) {
    const std::string& end = before[static_cast<std::size_t>(rank)].end;
    if (!end.empty()) died(rank, end);
  }
}

bool Board::is_present(Rank rank) const {
  return in_range(rank) && member(rank).seat == Seat::present;
}

void Board::handle(Rank rank, BoardRequest request) {
  invariant(is_present(rank), "only a rank that has joined asks");
  switch (request.kind) {
    case BoardRequest::Kind::put:
      return put(rank, std::move(request));
    case BoardRequest::Kind::take_back:
      return take_back(rank, request);
    case BoardRequest::Kind::get:
      return get(rank, request);
    case BoardRequest::Kind::fence:
      return fence(rank, request.id);
    case BoardRequest::Kind::give_up:
      return give_up(rank, request.id);
    case BoardRequest::Kind::leave:
      return leave(rank, request);
  }
}

Status Board::check_put(const BoardRequest& request) const {
  if (request.key.empty() || request.key.size() > kMaxStoreKey) {
    return Status(Code::invalid_argument, fmt::format("put: a key of {} bytes; 1 to {} are allowed",
                                                      request.key.size(), kMaxStoreKey));
  }
  if (request.value.size() > kMaxStoreValue) {
    return Status(Code::invalid_argument,
                  fmt::format("put '{}': {} bytes; at most {} are allowed", request.key,
                              request.value.size(), kMaxStoreValue));
  }
  const auto old = values_.find(request.key);
  if (old != values_.end()) {
    if (old->second == request.value) return {};
    return Status(Code::mismatch,
                  fmt::format("put '{}': the key holds other bytes already", request.key));
  }
  if (stored_bytes_ + request.key.size() + request.value.size() > kMaxStoreTotal) {
    return Status(Code::exhausted, fmt::format("put '{}': the job's store is full ({} MiB)",
                                               request.key, kMaxStoreTotal >> 20));
  }
  return {};
}

void Board::put(Rank rank, BoardRequest&& request) {
  const Status status = check_put(request);
  if (status.ok()) {
    const auto [entry, fresh] = values_.try_emplace(request.key, std::move(request.value));
    if (fresh) stored_bytes_ += entry->first.size() + entry->second.size();
    if (fresh) release_gets(entry->first, entry->second);
  }
  answer(rank, request.id, status);
}

void Board::take_back(Rank rank, const BoardRequest& request) {
  const auto value = values_.find(request.key);
  if (value != values_.end()) {
    stored_bytes_ -= value->first.size() + value->second.size();
    values_.erase(value);
  }
  answer(rank, request.id, {});
}

void Board::release_gets(const std::string& key, const std::string& value) {
  const auto waiting = waiting_.extract(key);
  if (waiting.empty()) return;
  for (const Waiter& waiter : waiting.mapped()) {
    member(waiter.rank).gets.erase(waiter.id);
    outbox_.reply(waiter.rank, {waiter.id, {}, value});
  }
}

void Board::get(Rank rank, const BoardRequest& request) {
  const auto value = values_.find(request.key);
  if (value != values_.end()) return outbox_.reply(rank, {request.id, {}, value->second});
  if (request.key.empty() || request.key.size() > kMaxStoreKey) {
    return answer(rank, request.id,
                  Status(Code::invalid_argument, "get: not a key that anybody can put"));
  }
  if (request.from != kNoRank && !in_range(request.from)) {
    return answer(rank, request.id,
                  Status(Code::invalid_argument,
                         fmt::format("get '{}' from rank {}: a job of {} ranks has none",
                                     request.key, request.from, size())));
  }
  if (request.from != kNoRank) {
    if (auto status = gone(request.from)) return answer(rank, request.id, *status);
  }
  Member& asker = member(rank);
  if (asker.gets.size() >= kMaxStoreWaits || asker.gets.contains(request.id)) {
    return answer(rank, request.id,
                  Status(Code::exhausted, fmt::format("get '{}': {} gets are waiting already",
                                                      request.key, asker.gets.size())));
  }
  asker.gets.emplace(request.id, request.key);
  waiting_[request.key].push_back({rank, request.id, request.from});
}

void Board::fence(Rank rank, RequestId id) {
  if (member(rank).fence) {
    return answer(rank, id,
                  Status(Code::invalid_argument, "fence: another thread of this rank is in it"));
  }
  if (!gone_in_order_.empty()) return answer(rank, id, *gone(gone_in_order_.front()));
  member(rank).fence = id;
  if (++in_fence_ == in_fences()) release_fence({});
}

// Ranks that have come back are not waited for.
int Board::in_fences() const {
  return static_cast<int>(std::ranges::count(members_, 0, &Member::incarnation));
}

void Board::release_fence(const Status& status) {
  in_fence_ = 0;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (const auto id = std::exchange(member(rank).fence, std::nullopt)) answer(rank, *id, status);
  }
}

void Board::give_up(Rank rank, RequestId id) {
  Member& asker = member(rank);
  if (asker.fence == id) {
    const Status status = missing_in_fence();
    asker.fence.reset();
    --in_fence_;
    return answer(rank, id, status);
  }
  const auto get = asker.gets.extract(id);
  if (get.empty()) return;  // the get was answered before the give_up arrived
  const auto waiting = waiting_.find(get.mapped());
  auto& waiters = waiting->second;
  const auto waiter =
      std::ranges::find_if(waiters, [&](const Waiter& w) { return w.rank == rank && w.id == id; });
  answer(rank, id, missing_for_get(waiter->from, get.mapped()));
  waiters.erase(waiter);
  if (waiters.empty()) waiting_.erase(waiting);
}

void Board::leave(Rank rank, const BoardRequest& request) {
  answer(rank, request.id, {});
  member(rank).failure = request.value.substr(0, kLongestFailure);
  go(rank, Seat::left, request.value.empty() ? "said goodbye" : member(rank).failure);
}

void Board::died(Rank rank, const std::string& reason) {
  if (!in_range(rank)) return;
  if (member(rank).seat == Seat::left) member(rank).end = reason;
  if (!gone(rank)) go(rank, Seat::died, reason);
}

void Board::refused(Rank rank, const std::string& reason) {
  if (!in_range(rank) || member(rank).seat != Seat::expected) return;
  member(rank).was_refused = true;
  go(rank, Seat::died, reason);
}

void Board::note_stranger(std::string what) {
  if (strangers_.size() == kMostStrangers || std::ranges::count(strangers_, what) != 0) return;
  strangers_.push_back(std::move(what));
}

std::string Board::strangers() const {
  std::string text;
  for (const std::string& stranger : strangers_) text += "; " + stranger;
  return text;
}

void Board::go(Rank rank, Seat seat, const std::string& reason) {
  forget_waits_of(rank);
  if (is_present(rank)) --present_;
  member(rank).seat = seat;
  member(rank).reason = reason;
  gone_in_order_.push_back(rank);
  for (Rank other = 0; other < size(); ++other) {
    if (is_present(other)) outbox_.event(other, event_of(rank));
  }
  const Status status = *gone(rank);
  release_fence(status);
  fail_gets_from(rank, status);
}

StoreEvent Board::event_of(Rank rank) const {
  const Member& m = member(rank);
  const auto kind = m.seat == Seat::present ? StoreEvent::Kind::returned
                    : m.seat == Seat::left  ? StoreEvent::Kind::left
                                            : StoreEvent::Kind::died;
  return {kind, rank, m.reason, m.incarnation};
}

void Board::forget_waits_of(Rank rank) {
  Member& leaver = member(rank);
  if (leaver.fence) --in_fence_;
  leaver.fence.reset();
  for (const auto& [id, key] : leaver.gets) {
    auto& waiters = waiting_[key];
    std::erase_if(waiters, [&](const Waiter& waiter) { return waiter.rank == rank; });
    if (waiters.empty()) waiting_.erase(key);
  }
  leaver.gets.clear();
}

void Board::fail_gets_from(Rank rank, const Status& status) {
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    std::erase_if(entry->second, [&](const Waiter& waiter) {
      if (waiter.from != rank) return false;
      member(waiter.rank).gets.erase(waiter.id);
      answer(waiter.rank, waiter.id, status);
      return true;
    });
    entry = entry->second.empty() ? waiting_.erase(entry) : std::next(entry);
  }
}

std::optional<Status> Board::gone(Rank rank) const {
  const Member& m = member(rank);
  if (m.seat == Seat::left)
    return Status(
        Code::peer_left,
        fmt::format("rank {} has left the job{}{}", rank, m.failure.empty() ? "" : ": ", m.failure),
        rank);
  if (m.seat == Seat::died && m.was_refused) {
    return Status(Code::mismatch, fmt::format("rank {} could not join: {}", rank, m.reason), rank);
  }
  if (m.seat == Seat::died) {
    return Status(Code::peer_died, fmt::format("rank {} died: {}", rank, m.reason), rank);
  }
  return std::nullopt;
}

Status Board::missing_in_fence() const {
  std::vector<Rank> never;  // joined
  std::vector<Rank> late;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (member(rank).fence) continue;
    (member(rank).seat == Seat::expected ? never : late).push_back(rank);
  }
  std::string text = "fence: ";
  if (!never.empty()) text += list_ranks(never) + " never joined the job";
  if (!never.empty() && !late.empty()) text += "; ";
  if (!late.empty()) text += list_ranks(late) + " did not come to it";
  if (!never.empty()) text += strangers();
  std::vector<Rank> all = never;
  all.insert(all.end(), late.begin(), late.end());
  return Status(Code::timed_out, std::move(text), only_one(all));
}

Status Board::missing_for_get(Rank from, const std::string& key) const {
  if (from != kNoRank) {
    const bool joined = member(from).seat != Seat::expected;
    return Status(
        Code::timed_out,
        fmt::format("get '{}': rank {} {}{}", key, from,
                    joined ? "has not put it" : "never joined the job", joined ? "" : strangers()),
        from);
  }
  std::vector<Rank> never;
  for (Rank rank = 0; rank < size(); ++rank) {
    if (member(rank).seat == Seat::expected) never.push_back(rank);
  }
  std::string text = fmt::format("get '{}': nobody has put it", key);
  if (!never.empty()) text += "; " + list_ranks(never) + " never joined the job" + strangers();
  return Status(Code::timed_out, std::move(text), only_one(never));
}

}  // namespace weft
