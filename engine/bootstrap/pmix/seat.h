// The seat of this process in its PMIx job, and the sessions that stores hold in it. Internal to
// the module.
//
// PMIx knows a process once: PMIx_Finalize followed by PMIx_Init races with the fences of the other
// ranks. So the process joins when its first store is opened and finalizes when it exits. A program
// that ends Weft and starts it again gets a new *session* in the same seat:
//
//   open_store   session 0: keys "weft/0/…", goodbye
//   open_store   session 1: keys "weft/1/…", goodbye
//   exit         PMIx_Finalize
//
// All ranks open and leave stores in the same order, so they agree on the session's number. A rank
// that has left session 0 is no news in session 1; a process that has died is dead in all.
#pragma once

#include <unistd.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/bootstrap/pmix/library.h"

namespace weft {

class PmixStore;

// Lives as long as the process and is never destroyed: a static context may leave after all static
// objects of ours. Thread safe; PMIx's thread brings events.
class PmixSeat {
 public:
  // Joins the job at the first call.
  [[nodiscard]] static Result<PmixSeat*> of_process();

  [[nodiscard]] const pmix::Library& library() const { return library_; }
  [[nodiscard]] const pmix_proc_t& self() const { return self_; }
  // Of the store that is open, or of the next one.
  [[nodiscard]] std::uint32_t session();

  // From now on the store hears what happens to the other ranks, and first what has happened so far.
  void attach(PmixStore& store);
  // The store hears nothing more. `ends_session`: it was a seat in the job, and the next store has
  // the next session.
  void detach(PmixStore& store, bool ends_session);

 private:
  // Something happened to a process; `session` is that of a rank that said so itself.
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
  std::vector<News> news_;  // for stores that come later; at most one of a kind for each rank
  bool exits_ = false;      // finalized as soon as no store is open
};

}  // namespace weft
