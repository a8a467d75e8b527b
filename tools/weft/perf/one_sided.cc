// What rank 1 does, and how it learns that the trial is over.
#include "tools/weft/perf/one_sided.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>

namespace weft {
namespace {

constexpr std::int64_t kStopMs = 10'000;
constexpr std::int64_t kPatienceMs = 180'000;  // of a trial, as Seat's

// As /proc has it: 'T' is stopped; 0: there is no such process.
char state_of(pid_t process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string word;
  // The name is in parentheses and may contain spaces.
  while (stat >> word && word.back() != ')') continue;
  return stat >> word ? word.front() : '\0';
}

// Lets a stopped process go on when it goes out of scope, whatever happened.
class Stopped {
 public:
  explicit Stopped(pid_t process) : process_(process) {}
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;
  ~Stopped() {
    if (process_ > 0) ::kill(process_, SIGCONT);
  }
  [[nodiscard]] bool still() const { return process_ <= 0 || state_of(process_) == 'T'; }

 private:
  pid_t process_;
};

}  // namespace

Result<Laps> OneSided::time(const Trial& trial, const Subject& subject) {
  if (seat_.leads()) return lead(trial, subject);
  WEFT_RETURN_IF_ERROR(be_target());
  return Laps{};
}

Result<Laps> OneSided::lead(const Trial& trial, const Subject& subject) {
  WEFT_ASSIGN(const int process, stopped_target());
  Meeting::Shared nobody{};
  Meeting alone(nobody, 1, false);
  Result<Laps> laps = [&]() -> Result<Laps> {
    const Stopped target(process);
    WEFT_ASSIGN(Laps timed, time_laps(trial, subject, alone));
    if (target.still()) return timed;
    return Status(Code::mismatch, "--target stopped: somebody woke rank 1");
  }();
  WEFT_RETURN_IF_ERROR(end_trial());
  return laps;
}

// Waits until the target has been stopped. 0: it is not to be stopped.
Result<int> OneSided::stopped_target() {
  if (way_ != TargetWay::stopped) return 0;
  WEFT_ASSIGN(const std::vector<std::string> processes, seat_.gather({}));
  const int process = std::atoi(processes[1].c_str());
  for (const Deadline end = Deadline::after_ms(kStopMs); state_of(process) != 'T';) {
    if (end.passed()) {
      return Status(Code::unavailable,
                    fmt::format("--target stopped: rank 1, process {}, does not stop", process));
    }
    ::sched_yield();
  }
  return process;
}

Status OneSided::end_trial() {
  if (way_ == TargetWay::computes) return seat_.meeting().wait();
  if (way_ == TargetWay::waits) {
    WEFT_RETURN_IF_ERROR(window_.write(1, Input{}, {}, 0, kEndSignal));
  }
  return seat_.announce(0).status();
}

Status OneSided::be_target() {
  if (way_ == TargetWay::computes) return seat_.meeting().wait();
  if (way_ == TargetWay::waits) WEFT_RETURN_IF_ERROR(await_end_signal());
  if (way_ == TargetWay::stopped) {
    WEFT_RETURN_IF_ERROR(seat_.gather(std::to_string(::getpid())).status());
    if (::raise(SIGSTOP) != 0) return system_error("raise SIGSTOP", errno);
  }
  return seat_.announce(0).status();
}

// One wait lasts at most Config::deadline_ms, and a trial may last longer.
Status OneSided::await_end_signal() {
  ++trials_;
  for (const Deadline end = Deadline::after_ms(kPatienceMs);;) {
    Status heard = window_.wait_signal(kEndSignal, trials_);
    if (heard.code() != Code::timed_out || end.passed()) return heard;
  }
}

}  // namespace weft
