// A job: the ranks of `weft run`, from their start to the exit status. One loop on the main thread
// waits for whatever comes first (a rank's end, its output, a signal, a time) and never sleeps
// otherwise.
//
//   running --- a rank fails ------> reporting --- grace over ---> stopping --- grace over -->
//   killing
//      |                                                              ^                           ^
//      +------- Ctrl-C, SIGTERM, the job's deadline, no reader -------+--- a second Ctrl-C -------+
//
// From every phase, when all ranks have ended: their leftovers are killed, the rest of their output
// is written, and the job is over. Ended ranks stay zombies until then, so that their process group
// numbers stay theirs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "tools/weft/common/child.h"
#include "tools/weft/common/output.h"

namespace weft {

enum class Binding : std::uint8_t {
  automatic,  // core when there is one for each rank, else none
  core,       // rank r on usable core r, modulo their number
  none,
};

struct JobOptions {
  int ranks = 1;
  Binding binding = Binding::automatic;
  std::int64_t deadline_ms = 0;  // of the whole job; 0: none
  std::int64_t grace_ms = 2'000;
  bool tag = true;
  bool pmix = false;  // be a PMIx server to the ranks too, or fail
  bool keeps_going =
      false;         // if a rank fails, the others go on; so too where WEFT_ON_DEATH is skip
  int restarts = 0;  // how often each rank that fails is started again
  std::vector<std::string> command;
};

class Job {
 public:
  explicit Job(const JobOptions& options);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();  // kills what still runs

  Status start();
  // Until all has ended; the exit status for `weft run`: the first failing rank's, 128 + signal
  // where a signal ended it or us, 124 when the job's deadline passed, 1 when output was lost. If the
  // others go on when a rank fails, it is 0 as soon as one has ended well.
  int run();

 private:
  enum class Phase : std::uint8_t { running, reporting, stopping, killing, draining, over };
  struct Process {
    Child child;
    Tagger out;
    Tagger err;
    bool ended = false;
    int restarts = 0;  // of its rank, so far
  };

  Result<Process> start_rank(Rank rank) const;
  Status prepare_restarts();
  bool restart(Rank rank);
  void forget_replaced();
  Status start_pmix(std::vector<std::string>& environment);
  void turn();
  void advance();
  void enter(Phase phase, std::int64_t ms);
  void read_signals();
  void interrupt(int signal);
  void note_ends_without_pidfd();
  void note_end(Rank rank);
  void read_output(Rank rank);
  void read_stream(Fd& stream, Tagger& tagger, Sink& sink);
  void flush(Sink& sink);
  void give_up_on_deadline();
  void signal_all(int signal);
  void say(const std::string& text);
  [[nodiscard]] bool all_ended() const { return running_ == 0; }
  [[nodiscard]] bool has_open_streams() const;
  [[nodiscard]] int poll_timeout_ms() const;
  [[nodiscard]] std::vector<pid_t> pids() const;
  [[nodiscard]] std::string running_ranks() const;

  JobOptions options_;
  std::unique_ptr<RendezvousServer> rendezvous_;
  std::unique_ptr<PmixServer> pmix_;  // null where there is no PMIx
  Fd signals_;
  std::vector<std::string> environment_;  // of every rank
  std::vector<int> cpus_;  // rank r runs on number r modulo their number; empty: on any
  std::vector<Process>
      processes_;  // element r is rank r; behind them those that were started again
  Sink stdout_;
  Sink stderr_;
  Phase phase_ = Phase::running;
  std::optional<Deadline> phase_ends_;
  std::optional<Deadline> job_ends_;
  std::optional<int> exit_status_;    // set by the first thing that went wrong
  std::optional<int> first_failure_;  // of a rank, if the others go on
  bool has_one_ended_well_ = false;
  int running_ = 0;
};

}  // namespace weft
