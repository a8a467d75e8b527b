// seat: the membership of this process in its PMIx job (its seat), and the sessions of its stores.
// Internal to the module.
//
// A process can join a PMIx job only once, because PMIx_Finalize followed by PMIx_Init races with
// the fences of the other ranks. So the process calls PMIx_Init when its first store is opened, and
// PMIx_Finalize when it exits. If a program ends Weft and starts it again, the new store has a new
// *session* in the same seat:
//
//   open_store   session 0: keys "weft/0/…", goodbye
//   open_store   session 1: keys "weft/1/…", goodbye
//   exit         PMIx_Finalize
//
// All ranks open and leave stores in the same order, so they agree on the session's number. If a
// rank has left session 0, that is no event in session 1. If a process has died, it is dead in all
// sessions.
#pragma once

#include <unistd.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/bootstrap/pmix/library.h"

namespace weft {

class PmixStore;

// A seat is never destroyed, because a static context may leave after the static objects of this
// library. Thread safe; PMIx's own thread delivers events.
class PmixSeat {
 public:
  // Joins the job at the first call.
  [[nodiscard]] static Result<PmixSeat*> of_process();

  [[nodiscard]] const pmix::Library& library() const { return library_; }
  [[nodiscard]] const pmix_proc_t& self() const { return self_; }
  // The session of the store that is open, or of the next one.
  [[nodiscard]] std::uint32_t session();

  // From now on the store gets events about other ranks, and first those that were received before.
  void attach(PmixStore& store);
  // The store gets no more events. `ends_session`: the store has taken part in the job, so the next
  // store has the next session.
  void detach(PmixStore& store, bool ends_session);

 private:
  // An event about a process. It has a session if a rank reported it about itself.
  struct News {
    pmix_status_t code;
    pmix_proc_t process;
    std::string text;
    std::optional<std::uint32_t> session;
  };

  explicit PmixSeat(const pmix::Library& library, const pmix_proc_t& self)
      : library_(library), self_(self) {}
  static Result<PmixSeat*> join();
  Status listen();
  static void on_event(std::size_t handler, pmix_status_t code, const pmix_proc_t* source,
                       pmix_info_t infos[], std::size_t count, pmix_info_t* results,
                       std::size_t result_count, pmix_event_notification_cbfunc_fn_t done,
                       void* data);
  void take(News news);
  [[nodiscard]] bool concerns_store(const News& news) const;
  static void leave_at_exit();
  void finalize();

  static inline PmixSeat* seat_of_process = nullptr;

  const pmix::Library& library_;
  const pmix_proc_t self_;
  const pid_t process_ = getpid();  // a forked child has no seat
  std::optional<std::size_t> handler_;
  std::mutex mutex_;
  PmixStore* store_ = nullptr;
  std::uint32_t session_ = 0;
  std::vector<News> news_;  // for later stores; at most one of each code for a rank and session
  bool exits_ = false;      // the process exits: finalize() when no store is open
};

}  // namespace weft
