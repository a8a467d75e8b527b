// seat: PMIx_Init, the events of the job, and PMIx_Finalize at exit.
#include "engine/bootstrap/pmix/seat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "engine/bootstrap/pmix/store.h"

namespace weft {
namespace {

constexpr std::int64_t kServerMs = 10'000;

std::optional<std::uint32_t> session_in(std::string_view text) {
  std::uint32_t session = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), session);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return session;
}

}  // namespace

Result<PmixSeat*> PmixSeat::of_process() {
  // Never destroyed, because a static context may be the last one that uses it.
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (seat_of_process == nullptr) {
    WEFT_ASSIGN(seat_of_process, join());
    if (Status status = seat_of_process->listen(); !status.ok()) {
      seat_of_process->finalize();
      delete std::exchange(seat_of_process, nullptr);
      return status;
    }
    std::atexit(&leave_at_exit);
  }
  if (seat_of_process->process_ == getpid()) return seat_of_process;
  return Status(
      Code::unavailable,
      "PMIx: this process was forked from a rank, whose seat in the job it does not have");
}

Result<PmixSeat*> PmixSeat::join() {
  WEFT_ASSIGN(const pmix::Library* library, pmix::library());
  pmix_proc_t self = pmix::process("", 0);
  const SignalsBlocked blocked;  // the thread that PMIx starts inherits this
  const pmix_status_t status = library->init(&self, nullptr, 0);
  if (status != PMIX_SUCCESS) return pmix::failure(*library, "join the job", status);
  return new PmixSeat(*library, self);
}

Status PmixSeat::listen() {
  std::vector<pmix_status_t> codes{pmix::kLeft};
  codes.insert(codes.end(), pmix::kDeaths.begin(), pmix::kDeaths.end());
  codes.insert(codes.end(), pmix::kLosses.begin(), pmix::kLosses.end());
  const auto answer = pmix::new_answer(std::make_shared<pmix::Bell>());
  library_.register_event_handler(codes.data(), codes.size(), nullptr, 0, &on_event,
                                  &pmix::on_registered, pmix::share(answer));
  const pmix_status_t status = pmix::await(*answer, Deadline::after_ms(kServerMs));
  if (status != PMIX_SUCCESS) return pmix::failure(library_, "ask for events", status);
  handler_ = answer->reference;
  return {};
}

std::uint32_t PmixSeat::session() {
  const std::lock_guard lock(mutex_);
  return session_;
}

void PmixSeat::attach(PmixStore& store) {
  const std::lock_guard lock(mutex_);
  store_ = &store;
  for (const News& news : news_) {
    if (concerns_store(news)) store.take_event(news.code, news.process, news.text);
  }
}

void PmixSeat::detach(PmixStore& store, bool ends_session) {
  std::unique_lock lock(mutex_);
  if (store_ != &store) return;
  store_ = nullptr;
  if (ends_session) ++session_;
  std::erase_if(news_,
                [this](const News& news) { return news.session && *news.session < session_; });
  const bool was_last = exits_;
  lock.unlock();
  if (was_last) finalize();
}

// The event handler. PMIx passes no pointer to the seat, so the function is static.
void PmixSeat::on_event(std::size_t, pmix_status_t code, const pmix_proc_t* source,
                        pmix_info_t infos[], std::size_t count, pmix_info_t*, std::size_t,
                        pmix_event_notification_cbfunc_fn_t done, void* data) {
  News news{code, source == nullptr ? pmix::process("", 0) : *source, "", std::nullopt};
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view key = infos[i].key;
    const pmix_value_t& value = infos[i].value;
    if (key == PMIX_EVENT_AFFECTED_PROC && value.type == PMIX_PROC) news.process = *value.data.proc;
    if (key == PMIX_EVENT_TEXT_MESSAGE && value.type == PMIX_STRING && value.data.string != nullptr)
      news.text = value.data.string;
  }
  if (code == pmix::kLeft || code == pmix::kDied) news.session = session_in(news.text);
  if (seat_of_process != nullptr) seat_of_process->take(std::move(news));
  // The event goes on to other handlers of this process, such as those of MPI.
  if (done != nullptr) done(PMIX_EVENT_NO_ACTION_TAKEN, nullptr, 0, nullptr, nullptr, data);
}

void PmixSeat::take(News news) {
  const std::lock_guard lock(mutex_);
  if (news.session && *news.session < session_) return;  // that session is over on this rank
  if (store_ != nullptr && concerns_store(news))
    store_->take_event(news.code, news.process, news.text);
  const bool is_known = std::ranges::any_of(news_, [&news](const News& old) {
    return old.code == news.code && old.session == news.session &&
           old.process.rank == news.process.rank &&
           std::string_view(old.process.nspace) == news.process.nspace;
  });
  if (!is_known) news_.push_back(std::move(news));
}

bool PmixSeat::concerns_store(const News& news) const {
  return !news.session || *news.session == session_;
}

void PmixSeat::leave_at_exit() {
  PmixSeat& seat = *seat_of_process;
  if (seat.process_ != getpid()) return;
  std::unique_lock lock(seat.mutex_);
  seat.exits_ = true;
  const bool has_store = seat.store_ != nullptr;  // of a static context, which is destroyed later
  lock.unlock();
  if (!has_store) seat.finalize();
}

// Called without the lock: PMIx_Finalize waits for PMIx's thread, which may be delivering an event
// and need the lock.
void PmixSeat::finalize() {
  if (handler_) (void)library_.deregister_event_handler(*handler_, nullptr, nullptr);
  (void)library_.finalize(nullptr, 0);
}

}  // namespace weft
