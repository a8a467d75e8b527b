// Requests out, replies in, and the waiting between.
#include "engine/bootstrap/store_client.h"

#include <fmt/format.h>

#include <chrono>

namespace weft {
namespace {

// How much longer than its deadline a wait stays to hear from the rendezvous who was missing.
constexpr std::int64_t kLastWordsMs = 1000;

std::chrono::steady_clock::time_point steady(Deadline deadline) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.ns()));
}

}  // namespace

StoreClient::StoreClient(Rank rank, int size, std::int64_t put_deadline_ms, Fd event_fd)
    : rank_(rank), size_(size), put_deadline_ms_(put_deadline_ms), events_(std::move(event_fd)) {}

Status StoreClient::put(std::string key, std::string bytes) {
  // Refused here as well as by the board: the frame has no room for longer ones.
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
    // From here on the end of the connection is what we asked for, not an event.
    const std::lock_guard lock(mutex_);
    left_ = true;
  }
  const Status status =
      ask({BoardRequest::Kind::leave, 0, kNoRank, {}, failure()}, deadline).status;
  const std::lock_guard lock(mutex_);
  broken_ = Status(Code::closed, "this rank has left the job", rank_);
  for (auto& [id, reply] : open_) {
    if (!reply) reply = Reply{id, broken_, {}};
  }
  delivered_.notify_all();
  return status;
}

Reply StoreClient::ask(BoardRequest request, Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.ok()) return {0, broken_, {}};
    request.id = ++last_id_;
    open_.emplace(request.id, std::nullopt);
  }
  // Even a request that cannot be sent is waited for: breaking off answers it, with the reason.
  if (const Status sent = send(request, deadline); !sent.ok()) break_off(sent);
  if (auto reply = await(request.id, deadline)) return *std::move(reply);
  const Deadline last_words = Deadline::after_ms(kLastWordsMs);
  const Status sent = send({BoardRequest::Kind::give_up, request.id, kNoRank, {}, {}}, last_words);
  std::optional<Reply> reply;
  if (sent.ok()) reply = await(request.id, last_words);
  const std::lock_guard lock(mutex_);
  open_.erase(request.id);
  if (reply) return *std::move(reply);
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
  const auto slot = open_.find(reply.id);
  if (slot == open_.end() || slot->second) return;  // given up, or never asked
  slot->second = reply;
  delivered_.notify_all();
}

void StoreClient::deliver(const StoreEvent& event) {
  const std::lock_guard lock(mutex_);
  // A rank ends once and the rendezvous once; more than that is a server gone wrong.
  if (!left_) events_.push(event, static_cast<std::size_t>(size_) + 1);
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
