// store: turns calls into PMIx requests and waits for their answers. The death of a rank ends the
// waits that need this rank.
#include "engine/bootstrap/pmix/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "engine/bootstrap/kinds.h"
#include "engine/bootstrap/missing.h"

namespace weft {
namespace {

// PMIx answers "not found" for a key that its rank has not put yet. The request is repeated after a
// pause, which grows. A pause ends at once if the rank is gone.
constexpr std::int64_t kFirstPauseMs = 1;
constexpr std::int64_t kLongestPauseMs = 50;
// How long the server of this machine may take to answer from its own memory, for example which
// ranks are missing in a fence.
constexpr std::int64_t kLastWordsMs = 1000;
// Keys of the store itself. Callers' keys never begin with "launch/".
constexpr const char* kJobKey = "launch/job key";
constexpr const char* kGoodbye = "launch/goodbye";

// The open store of this process. Never destroyed, because a static context may be its last user.
struct Current {
  std::mutex mutex;
  std::weak_ptr<PmixStore> store;
};
Current& current() {
  static Current& instance = *new Current;
  return instance;
}

std::chrono::steady_clock::time_point steady(Deadline deadline) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.ns()));
}

// The timeout that PMIx gets for a request, in whole seconds. It ends after our own deadline.
int server_seconds(Deadline deadline) {
  return static_cast<int>(deadline.left_ms() / 1000) + 2;
}

}  // namespace

PmixStore::PmixStore(PmixSeat& seat, Fd event_fd)
    : seat_(seat),
      library_(seat.library()),
      self_(seat.self()),
      session_(seat.session()),
      events_(std::move(event_fd)) {}

// Returns the store that is open, or a new one if none is open.
Result<std::shared_ptr<Store>> PmixStore::open(Config& config) {
  const std::lock_guard lock(current().mutex);
  if (const std::shared_ptr<PmixStore> store = current().store.lock();
      store && !store->has_left()) {
    WEFT_RETURN_IF_ERROR(store->learn(config));
    config.job_key = store->job_key_;
    return std::shared_ptr<Store>(store);
  }
  WEFT_ASSIGN(PmixSeat * seat, PmixSeat::of_process());
  WEFT_ASSIGN(Fd event_fd, EventQueue::make_fd());
  std::shared_ptr<PmixStore> store(new PmixStore(*seat, std::move(event_fd)));
  WEFT_RETURN_IF_ERROR(store->learn(config));
  seat->attach(*store);
  WEFT_RETURN_IF_ERROR(store->agree_on_key(config));
  store->job_key_ = config.job_key;
  current().store = store;
  return std::shared_ptr<Store>(std::move(store));
}

PmixStore::~PmixStore() {
  if (broken_.ok()) (void)tell(pmix::kDied, Deadline::after_ms(kLastWordsMs));
  seat_.detach(*this, !job_key_.empty());
}

bool PmixStore::has_left() const {
  const std::lock_guard lock(bell_->mutex);
  return has_left_;
}

// The PMIx key for a key of the store. It has a prefix, because PMIx takes keys that begin with
// "pmix" for its own and does not fetch them from a rank. It contains the session, so that values
// of different sessions have different keys.
std::string PmixStore::name_of(const std::string& key) const {
  return fmt::format("weft/{}/{}", session_, key);
}

// A number that PMIx knows about the job or a rank; nothing if it has none.
std::optional<std::uint32_t> PmixStore::fact(pmix_rank_t rank, const char* key) const {
  const pmix_proc_t about = pmix::process(self_.nspace, rank);
  pmix_value_t* value = nullptr;
  if (library_.get(&about, key, nullptr, 0, &value) != PMIX_SUCCESS) return std::nullopt;
  const std::unique_ptr<pmix_value_t, decltype(&std::free)> owner(value, &std::free);
  if (value->type == PMIX_UINT32) return value->data.uint32;
  if (value->type == PMIX_UINT16) return value->data.uint16;
  return std::nullopt;
}

Status PmixStore::learn(Config& config) {
  const auto size = fact(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
  if (!size || *size < 1 || self_.rank >= *size) {
    return Status(Code::unavailable, "PMIx: the server does not say how many ranks the job has");
  }
  size_ = static_cast<int>(*size);
  config.rank = rank();
  config.size = size_;
  const auto local_rank = fact(self_.rank, PMIX_LOCAL_RANK);
  const auto local_size = fact(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE);
  if (local_rank && local_size && *local_rank < *local_size && *local_size <= *size) {
    config.local_rank = static_cast<Rank>(*local_rank);
    config.local_size = static_cast<int>(*local_size);
  }
  return {};
}

// Rank 0 makes a job key, and the others get it. It is secret, because the server gives values only
// to processes of the job.
Status PmixStore::agree_on_key(Config& config) {
  if (rank() == 0) {
    WEFT_ASSIGN(config.job_key, make_job_key());
    return put(kJobKey, config.job_key);
  }
  WEFT_ASSIGN(config.job_key, get_from(0, kJobKey, Deadline::after_ms(config.deadline_ms)));
  return {};
}

Status PmixStore::check_key(const std::string& key) const {
  if (!key.empty() && key.size() <= kMaxStoreKey) return {};
  return Status(Code::invalid_argument,
                fmt::format("a key of {} bytes; 1 to {} are allowed", key.size(), kMaxStoreKey));
}

Status PmixStore::put(std::string key, std::string bytes) {
  WEFT_RETURN_IF_ERROR(check_key(key));
  if (bytes.size() > kMaxStoreValue) {
    return Status(Code::invalid_argument, fmt::format("put '{}': {} bytes; at most {} are allowed",
                                                      key, bytes.size(), kMaxStoreValue));
  }
  {
    const std::lock_guard lock(bell_->mutex);
    if (!broken_.ok()) return broken_;
    if (own_bytes_ + key.size() + bytes.size() > kMaxStoreTotal) {
      return Status(Code::exhausted, fmt::format("put '{}': this rank has put {} MiB already", key,
                                                 kMaxStoreTotal >> 20));
    }
    const auto [entry, fresh] = own_.try_emplace(key, bytes);
    if (!fresh && entry->second != bytes) {
      return Status(Code::mismatch,
                    fmt::format("put '{}': the key holds other bytes already", key));
    }
    if (!fresh) return {};
    own_bytes_ += key.size() + bytes.size();
  }
  pmix_value_t value{};
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo = {bytes.data(), bytes.size()};
  pmix_status_t status = library_.put(PMIX_GLOBAL, name_of(key).c_str(), &value);
  if (status == PMIX_SUCCESS) status = library_.commit();
  if (status == PMIX_SUCCESS) return {};
  return pmix::failure(library_, fmt::format("put '{}'", key), status);
}

// Starts a request for a key. If `at_once`, the answer is "not found" if the rank has not put the
// key; else PMIx may wait for the rank.
std::shared_ptr<pmix::Answer> PmixStore::ask(Rank from, const std::string& key, Deadline deadline,
                                             bool at_once) const {
  const auto answer = new_answer();
  answer->key = name_of(key);
  answer->process = pmix::process(self_.nspace, static_cast<pmix_rank_t>(from));
  answer->infos = {pmix::flag(PMIX_GET_REFRESH_CACHE),
                   pmix::seconds(PMIX_TIMEOUT, server_seconds(deadline))};
  if (at_once) answer->infos.push_back(pmix::flag(PMIX_IMMEDIATE));
  void* shared = pmix::share(answer);
  const pmix_status_t status =
      library_.get_nb(&answer->process, answer->key.c_str(), answer->infos.data(),
                      answer->infos.size(), &pmix::on_value, shared);
  if (status == PMIX_SUCCESS) return answer;
  pmix::take_back(shared);
  answer->is_here = true;
  answer->status = status;
  return answer;
}

// Waits until the answer has come, the deadline has passed, the store is closed, or rank `needed`
// is gone (kNoRank: any rank). Returns whether the answer has come.
bool PmixStore::wait(Lock& lock, Deadline deadline, const pmix::Answer& answer, Rank needed) {
  bell_->rung.wait_until(lock, steady(deadline), [&] {
    return answer.is_here || !broken_.ok() || gone(needed).has_value();
  });
  return answer.is_here;
}

std::optional<Status> PmixStore::gone(Rank rank) const {
  const auto found = gone_.find(rank == kNoRank ? first_gone_ : rank);
  if (found == gone_.end()) return std::nullopt;
  const StoreEvent& event = found->second;
  if (event.kind == StoreEvent::Kind::left)
    return Status(Code::peer_left, fmt::format("rank {} has left the job", event.rank), event.rank);
  return Status(Code::peer_died, fmt::format("rank {} died: {}", event.rank, event.reason),
                event.rank);
}

Result<std::string> PmixStore::get_from(Rank from, const std::string& key, Deadline deadline) {
  WEFT_RETURN_IF_ERROR(check_key(key));
  if (from < 0 || from >= size_) {
    return Status(Code::invalid_argument,
                  fmt::format("get '{}' from rank {}: PMIx asks one of the ranks 0 to {}", key,
                              from, size_ - 1));
  }
  for (std::int64_t pause_ms = kFirstPauseMs;; pause_ms = std::min(2 * pause_ms, kLongestPauseMs)) {
    const bool was_gone = is_gone(from);
    // The values that a rank has put outlive it. If it is gone and has not put this one, nobody
    // will.
    const Deadline patience = was_gone ? Deadline::after_ms(kLastWordsMs) : deadline;
    const auto answer = ask(from, key, patience, was_gone);
    Lock lock(bell_->mutex);
    const bool is_here = wait(lock, patience, *answer, was_gone ? size_ : from);
    if (is_here && answer->status == PMIX_SUCCESS) return answer->value;
    if (!broken_.ok()) return broken_;
    if (was_gone) return *gone(from);
    if (deadline.passed()) {
      return Status(Code::timed_out, fmt::format("get '{}': rank {} has not put it", key, from),
                    from);
    }
    if (!is_here) continue;  // the rank is gone: look once more for what it has put
    (void)wait(lock, Deadline::after_ms(pause_ms), *new_answer(), from);
    lock.unlock();
    look_for_goodbye(from);
  }
}

// Checks whether a rank has said goodbye, and takes that as an event. The event of a goodbye
// reaches only the ranks of its machine. Therefore a goodbye also puts a key, which every rank can
// get.
void PmixStore::look_for_goodbye(Rank rank) {
  if (rank == this->rank() || is_gone(rank)) return;
  const Deadline last_words = Deadline::after_ms(kLastWordsMs);
  if (pmix::await(*ask(rank, kGoodbye, last_words, true), last_words) != PMIX_SUCCESS) return;
  take_event(pmix::kLeft, pmix::process(self_.nspace, static_cast<pmix_rank_t>(rank)), "");
}

bool PmixStore::is_gone(Rank rank) const {
  const std::lock_guard lock(bell_->mutex);
  return gone(rank).has_value();
}

// Enters the fence. First puts a key that says so, by which a rank whose fence times out finds out
// who is missing. Then starts the fence of PMIx.
Status PmixStore::enter_fence() {
  WEFT_RETURN_IF_ERROR(put(fence_key(), "in"));
  const auto answer = new_answer();
  answer->process = pmix::process(self_.nspace, PMIX_RANK_WILDCARD);
  void* shared = pmix::share(answer);
  const pmix_status_t status =
      library_.fence_nb(&answer->process, 1, nullptr, 0, &pmix::on_done, shared);
  if (status != PMIX_SUCCESS) {
    pmix::take_back(shared);
    if (status != PMIX_OPERATION_SUCCEEDED) return pmix::failure(library_, "fence", status);
    answer->is_here = true;
  }
  const std::lock_guard lock(bell_->mutex);
  fence_ = answer;
  return {};
}

// If the fence times out, the caller may call it again. PMIx, however, cannot take back that this
// rank has entered it: the others may pass it. The next call of this rank therefore continues to
// wait for the same fence, or finds it passed.
Status PmixStore::fence(Deadline deadline) {
  Lock lock(bell_->mutex);
  if (!broken_.ok()) return broken_;
  if (in_fence_)
    return Status(Code::invalid_argument, "fence: another thread of this rank is in it");
  // A fence that this rank has entered before is looked at even if a rank is gone, because the
  // others may have passed it and then left.
  if (const auto status = gone(kNoRank); status && fence_ == nullptr) return *status;
  in_fence_ = true;
  lock.unlock();
  const Status entered = fence_ == nullptr ? enter_fence() : Status{};
  lock.lock();
  const bool is_over = entered.ok() && wait(lock, deadline, *fence_, kNoRank);
  const Status status = entered.ok() ? outcome(lock, is_over) : entered;
  in_fence_ = false;
  return status;
}

Status PmixStore::outcome(Lock& lock, bool is_over) {
  if (!broken_.ok()) return broken_;
  if (is_over) {
    const pmix_status_t status = std::exchange(fence_, nullptr)->status;
    ++fences_;
    if (status == PMIX_SUCCESS) return {};
    // The server ends a fence with an error if a rank ends. An event says which rank.
    (void)wait(lock, Deadline::after_ms(kLastWordsMs), *new_answer(), kNoRank);
    if (auto why = gone(kNoRank)) return *why;
    return pmix::failure(library_, "fence", status);
  }
  if (auto status = gone(kNoRank)) return *status;
  lock.unlock();
  Status status = missing_in_fence();
  lock.lock();
  return status;
}

std::string PmixStore::fence_key() const {
  return fmt::format("launch/fence {}", fences_);
}

Status PmixStore::missing_in_fence() const {
  const Deadline last_words = Deadline::after_ms(kLastWordsMs);
  std::vector<std::shared_ptr<pmix::Answer>> answers;
  for (Rank rank = 0; rank < size_; ++rank)
    answers.push_back(ask(rank, fence_key(), last_words, true));
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < size_; ++rank) {
    pmix::Answer& answer = *answers[static_cast<std::size_t>(rank)];
    if (pmix::await(answer, last_words) != PMIX_SUCCESS) missing.push_back(rank);
  }
  if (missing.empty()) return Status(Code::timed_out, "fence: the last rank came to it just now");
  return Status(Code::timed_out, fmt::format("fence: {} did not come to it", list_ranks(missing)),
                only_one(missing));
}

Status PmixStore::goodbye(Deadline deadline) {
  WEFT_RETURN_IF_ERROR(put(kGoodbye, "said"));
  {
    const std::lock_guard lock(bell_->mutex);
    if (!broken_.ok()) return broken_;
    broken_ = Status(Code::closed, "this rank has left the job", rank());
    has_left_ = true;
    bell_->rung.notify_all();
  }
  const Status told = tell(pmix::kLeft, deadline);
  seat_.detach(*this, true);
  return told;
}

// Reports to the ranks of this machine that this rank has left or died. The event is not sent to
// all ranks, because the mpirun of Open MPI 4.1 would hang: it passes such an event on while it
// holds a lock, and then takes that lock again.
Status PmixStore::tell(pmix_status_t code, Deadline deadline) const {
  const auto answer = new_answer();
  answer->process = self_;
  answer->key = std::to_string(session_);
  answer->infos = {pmix::process_name(PMIX_EVENT_AFFECTED_PROC, answer->process),
                   pmix::text(PMIX_EVENT_TEXT_MESSAGE, answer->key),
                   pmix::flag(PMIX_EVENT_NON_DEFAULT)};
  void* shared = pmix::share(answer);
  pmix_status_t status =
      library_.notify_event(code, &answer->process, PMIX_RANGE_LOCAL, answer->infos.data(),
                            answer->infos.size(), &pmix::on_done, shared);
  if (status == PMIX_SUCCESS) {
    status = pmix::await(*answer, deadline);
  } else {
    pmix::take_back(shared);
  }
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return {};
  return pmix::failure(library_, "tell the other ranks", status);
}

void PmixStore::take_event(pmix_status_t code, const pmix_proc_t& affected,
                           const std::string& text) {
  const std::lock_guard lock(bell_->mutex);
  if (!broken_.ok()) return;
  const bool is_ours = std::string_view(affected.nspace) == self_.nspace;
  const bool is_loss = std::ranges::find(pmix::kLosses, code) != pmix::kLosses.end();
  const auto most = static_cast<std::size_t>(size_) + 1;
  if (is_loss && (!is_ours || affected.rank == self_.rank)) {
    broken_ = Status(Code::closed, "the PMIx server is gone");
    events_.push({StoreEvent::Kind::lost, kNoRank, std::string(broken_.text())}, most);
  } else if (is_ours && affected.rank < static_cast<pmix_rank_t>(size_) &&
             affected.rank != self_.rank) {
    const auto rank = static_cast<Rank>(affected.rank);
    StoreEvent event{StoreEvent::Kind::left, rank, "said goodbye"};
    if (code != pmix::kLeft) event = {StoreEvent::Kind::died, rank, text};
    if (code != pmix::kLeft && text.empty()) event.reason = library_.error_string(code);
    if (code == pmix::kDied) event.reason = "its store was destroyed without goodbye";
    if (!gone_.emplace(rank, event).second) return;
    if (first_gone_ == kNoRank) first_gone_ = rank;
    events_.push(event, most);
  }
  bell_->rung.notify_all();
}

Result<std::shared_ptr<Store>> open_pmix_store(Config& config) {
  return PmixStore::open(config);
}

}  // namespace weft
