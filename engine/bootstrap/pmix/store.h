// store: the Store of a job that a PMIx server started: `mpirun`, `srun --mpi=pmix`, `weft run`.
//
// The value that a rank puts stays with the PMIx server of its machine. A get names the rank and
// fetches the value from there. So only the fence is collective. Deaths and goodbyes arrive as PMIx
// events. A process has one store at a time, and may open another after the goodbye (seat.h).
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "engine/bootstrap/event_queue.h"
#include "engine/bootstrap/pmix/seat.h"

namespace weft {

// For any thread. The mutex of `bell_` guards everything that changes. It is not held while PMIx is
// called, because PMIx's thread takes it to deliver an answer or an event.
class PmixStore final : public Store {
 public:
  // Joins the job, and writes into `config` what the server knows: rank, size, local rank, local
  // size, and the key that rank 0 made for the job.
  [[nodiscard]] static Result<std::shared_ptr<Store>> open(Config& config);
  ~PmixStore() override;

  [[nodiscard]] Rank rank() const override { return static_cast<Rank>(self_.rank); }
  [[nodiscard]] int size() const override { return size_; }
  Status put(std::string key, std::string bytes) override;
  [[nodiscard]] Result<std::string> get_from(Rank from, const std::string& key,
                                             Deadline deadline) override;
  Status fence(Deadline deadline) override;
  Status goodbye(Deadline deadline) override;
  [[nodiscard]] int event_fd() const override { return events_.fd(); }
  [[nodiscard]] std::optional<StoreEvent> next_event() override { return events_.next(); }

  // Takes a PMIx event about a process. Called by PMIx's thread, among others.
  void take_event(pmix_status_t code, const pmix_proc_t& affected, const std::string& text);

 private:
  using Lock = std::unique_lock<std::mutex>;

  PmixStore(PmixSeat& seat, Fd event_fd);
  Status learn(Config& config);
  Status agree_on_key(Config& config);
  [[nodiscard]] std::optional<std::uint32_t> fact(pmix_rank_t rank, const char* key) const;

  [[nodiscard]] bool has_left() const;
  [[nodiscard]] std::string name_of(const std::string& key) const;
  [[nodiscard]] std::shared_ptr<pmix::Answer> new_answer() const { return pmix::new_answer(bell_); }
  [[nodiscard]] std::shared_ptr<pmix::Answer> ask(Rank from, const std::string& key,
                                                  Deadline deadline, bool at_once) const;
  bool wait(Lock& lock, Deadline deadline, const pmix::Answer& answer, Rank needed);
  [[nodiscard]] std::optional<Status> gone(Rank rank) const;
  [[nodiscard]] bool is_gone(Rank rank) const;
  void look_for_goodbye(Rank rank);
  [[nodiscard]] Status check_key(const std::string& key) const;
  Status enter_fence();
  Status outcome(Lock& lock, bool is_over);
  [[nodiscard]] std::string fence_key() const;
  [[nodiscard]] Status missing_in_fence() const;
  Status tell(pmix_status_t code, Deadline deadline) const;

  PmixSeat& seat_;
  const pmix::Library& library_;
  const pmix_proc_t self_;
  const std::uint32_t session_;
  int size_ = 1;
  std::string job_key_;  // empty until this store has joined the job
  const std::shared_ptr<pmix::Bell> bell_ = std::make_shared<pmix::Bell>();
  EventQueue events_;
  std::unordered_map<std::string, std::string> own_;  // what this rank has put
  std::size_t own_bytes_ = 0;
  std::map<Rank, StoreEvent> gone_;
  Rank first_gone_ = kNoRank;
  std::shared_ptr<pmix::Answer> fence_;  // the fence that was entered and has not been passed
  bool in_fence_ = false;                // a thread of this rank waits for it
  std::uint32_t fences_ = 0;
  Status broken_;
  bool has_left_ = false;
};

}  // namespace weft
