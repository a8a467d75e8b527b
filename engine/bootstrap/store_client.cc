// store_client: sends requests and waits for their replies.
#include "engine/bootstrap/store_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace weft {
namespace {

// After its deadline a wait lasts at most this much longer, until the rendezvous has said which
// ranks are missing.
constexpr std::int64_t kLastWordsMs = 1000;
// How long a network may be away: then TCP ends the connection (TCP_USER_TIMEOUT in net.cc).
constexpr std::int64_t kOutageMs = 15'000;
// How long a request waits for a rendezvous that has been silent for longer. Otherwise a call that needs several
// values would wait a deadline for each.
constexpr std::int64_t kSilentMs = 100;

std::chrono::steady_clock::time_point steady(Deadline deadline) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.ns()));
}

Deadline earlier(Deadline deadline, std::int64_t ms) {
  return Deadline::at_ns(std::min(deadline.ns(), Deadline::after_ms(ms).ns()));
}

}  // namespace

StoreClient::StoreClient(Rank rank, int size, std::int64_t put_deadline_ms, Fd event_fd)
    : rank_(rank), size_(size), put_deadline_ms_(put_deadline_ms), events_(std::move(event_fd)) {}

Status StoreClient::put(std::string key, std::string bytes) {
  // The board refuses these, too, but a frame has no room for a longer key or value.
  if (key.empty() || key.size() > kMaxStoreKey || bytes.size() > kMaxStoreValue) {
    return Status(
        Code::invalid_argument,
        fmt::format("put '{}': a key has 1 to {} bytes and a value at most {}; these are {} and {}",
                    key.substr(0, kMaxStoreKey), kMaxStoreKey, kMaxStoreValue, key.size(),
                    bytes.size()));
  }
  BoardRequest request{BoardRequest::Kind::put, 0, kNoRank, std::move(key), std::move(bytes)};
  return ask(std::move(request), Deadline::after_ms(put_deadline_ms_)).status;
}

Status StoreClient::take_back(const std::string& key) {
  if (key.empty() || key.size() > kMaxStoreKey) {
    return Status(Code::invalid_argument,
                  fmt::format("take_back: a key has 1 to {} bytes", kMaxStoreKey));
  }
  return ask({BoardRequest::Kind::take_back, 0, kNoRank, key, {}},
             Deadline::after_ms(put_deadline_ms_))
      .status;
}

Result<std::string> StoreClient::get_from(Rank from, const std::string& key, Deadline deadline) {
  if (key.empty() || key.size() > kMaxStoreKey) {
    return Status(Code::invalid_argument,
                  fmt::format("get: a key has 1 to {} bytes", kMaxStoreKey));
  }
  Reply reply = ask({BoardRequest::Kind::get, 0, from, key, {}}, deadline);
  if (!reply.status.ok()) return reply.status;
  return std::move(reply.value);
}

Status StoreClient::fence(Deadline deadline) {
  return ask({BoardRequest::Kind::fence, 0, kNoRank, {}, {}}, deadline).status;
}

Status StoreClient::goodbye(Deadline deadline) {
  {
    // From here on, no event is reported: the connection ends because this rank leaves.
    const std::lock_guard lock(mutex_);
    left_ = true;
  }
  const Deadline own = earlier(deadline, put_deadline_ms_);
  const Status status = ask({BoardRequest::Kind::leave, 0, kNoRank, {}, failure()}, own).status;
  const std::lock_guard lock(mutex_);
  broken_ = Status(Code::closed, "this rank has left the job", rank_);
  for (auto& [id, reply] : open_) {
    if (!reply) reply = Reply{id, broken_, {}};
  }
  delivered_.notify_all();
  return status;
}

Reply StoreClient::ask(BoardRequest request, Deadline deadline) {
  const bool has_last_words = request.kind != BoardRequest::Kind::leave;
  const bool waits = !deadline.passed();
  const std::int64_t begin_ns = now_ns();
  std::int64_t silent_since_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.ok()) return {0, broken_, {}};
    request.id = ++last_id_;
    open_.emplace(request.id, std::nullopt);
    silent_since_ns = silent_since_ns_;
  }
  const bool is_silent = silent_since_ns != 0;
  if (is_silent) {
    const std::int64_t back_ns =
        silent_since_ns + std::min(put_deadline_ms_, kOutageMs) * 1'000'000;
    const std::int64_t end_ns = std::max(back_ns, Deadline::after_ms(kSilentMs).ns());
    deadline = Deadline::at_ns(std::min(deadline.ns(), end_ns));
  }
  // If the request cannot be sent, break_off() answers it with the reason, and await() returns
  // that.
  if (const Status sent = send(request, deadline); !sent.ok()) break_off(sent);
  if (auto reply = await(request.id, deadline)) return *std::move(reply);
  const Deadline last_words = Deadline::after_ms(has_last_words && !is_silent ? kLastWordsMs : 0);
  const Status sent = send({BoardRequest::Kind::give_up, request.id, kNoRank, {}, {}}, last_words);
  std::optional<Reply> reply;
  if (sent.ok()) reply = await(request.id, last_words);
  const std::lock_guard lock(mutex_);
  open_.erase(request.id);
  if (reply) return *std::move(reply);
  if (waits && silent_since_ns_ == 0) silent_since_ns_ = begin_ns;
  return {request.id, Status(Code::timed_out, "the rendezvous does not answer"), {}};
}

std::optional<Reply> StoreClient::await(RequestId id, Deadline deadline) {
  std::unique_lock lock(mutex_);
  auto& slot = open_.at(id);
  delivered_.wait_until(lock, steady(deadline), [&] { return slot.has_value(); });
  if (!slot) return std::nullopt;
  std::optional<Reply> reply = std::move(slot);
  open_.erase(id);
  return reply;
}

void StoreClient::deliver(const Reply& reply) {
  const std::lock_guard lock(mutex_);
  silent_since_ns_ = 0;
  const auto slot = open_.find(reply.id);
  if (slot == open_.end() || slot->second) return;  // no longer waited for, or never requested
  slot->second = reply;
  delivered_.notify_all();
}

void StoreClient::deliver(const StoreEvent& event) {
  const std::lock_guard lock(mutex_);
  // So many wait only if the server is broken, or if ranks come and go while nobody here looks.
  constexpr std::size_t kMostBesideEnds = 1024;
  if (!left_) events_.push(event, static_cast<std::size_t>(size_) + kMostBesideEnds);
}

void StoreClient::break_off(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (!broken_.ok()) return;
  broken_ = why;
  for (auto& [id, reply] : open_) {
    if (!reply) reply = Reply{id, why, {}};
  }
  delivered_.notify_all();
}

}  // namespace weft
