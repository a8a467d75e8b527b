// The loop around the ranks' processes.
#include "tools/weft/common/job.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tools/weft/common/stragglers.h"

namespace weft {
namespace {

constexpr int kDeadlineStatus = 124;  // as timeout(1) has it
constexpr int kOutputLost = 1;
constexpr std::int64_t kKillMs =
    10'000;  // how long killed ranks may take to end before we go without them

// How a process ended, and the exit status that stands for it.
struct End {
  std::string how;
  int status;
};

End end_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) {
    return {fmt::format("exited with status {}", info.si_status), info.si_status};
  }
  return {fmt::format("was killed by signal {} ({}){}", info.si_status, ::strsignal(info.si_status),
                      info.si_code == CLD_DUMPED ? ", core dumped" : ""),
          128 + info.si_status};
}

Result<Fd> open_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&set, signal);
  // Before any thread is made, so that all inherit it and the signals come to the descriptor alone.
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0)
    return system_error("pthread_sigmask", errno);
  ::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return system_error("signalfd", errno);
  return fd;
}

// The ranks were told to use PMIx.
bool is_asked_for_pmix(const std::vector<std::string>& entries) {
  return std::ranges::find(entries, "WEFT_LAUNCHER=pmix") != entries.end();
}

}  // namespace

Job::Job(const JobOptions& options) : options_(options), stdout_(1), stderr_(2) {}

Job::~Job() {
  if (phase_ != Phase::over) (void)end_all(pids());
}

Status Job::start() {
  WEFT_RETURN_IF_ERROR(become_parent(options_.ranks));
  WEFT_ASSIGN(signals_, open_signals());
  RendezvousOptions rendezvous;
  rendezvous.size = options_.ranks;
  WEFT_ASSIGN(rendezvous.job_key, make_job_key());
  WEFT_ASSIGN(rendezvous_, RendezvousServer::start(rendezvous));

  const std::vector<int> cpus = usable_cpus();
  const auto cores = static_cast<int>(cpus.size());
  const std::string size = std::to_string(options_.ranks);
  environment_ =
      with_settings(environment(), {{"WEFT_RANK", "0"},
                                    {"WEFT_SIZE", size},
                                    {"WEFT_LOCAL_RANK", "0"},
                                    {"WEFT_LOCAL_SIZE", size},
                                    {"WEFT_LOCAL_CORES", std::to_string(std::max(cores, 1))},
                                    {"WEFT_RENDEZVOUS", rendezvous_->address().to_string()},
                                    {"WEFT_RENDEZVOUS_SERVER", "launcher"},
                                    {"WEFT_JOB_KEY", rendezvous.job_key}});
  if (options_.restarts > 0) WEFT_RETURN_IF_ERROR(prepare_restarts());
  if (options_.pmix || is_asked_for_pmix(environment_))
    WEFT_RETURN_IF_ERROR(start_pmix(environment_));
  // Every rank would refuse a bad variable; once is enough.
  const auto settings = with_settings(environment_, {{"WEFT_LAUNCHER", "weft"}});
  WEFT_ASSIGN(const Config config, Config::from_entries(settings, UnknownNames::refuse));
  set_log(config.log, kNoRank);
  options_.keeps_going |= config.on_death == OnDeath::skip;
  WEFT_RETURN_IF_ERROR(Config::from_entries(environment_, UnknownNames::refuse).status());

  const bool fits = options_.ranks <= cores;
  const bool bind =
      cores > 0 && options_.binding != Binding::none && (fits || options_.binding == Binding::core);
  if (bind) cpus_ = cpus;
  for (Rank rank = 0; rank < options_.ranks; ++rank) {
    WEFT_ASSIGN(Process started, start_rank(rank));
    processes_.push_back(std::move(started));
    ++running_;
  }
  if (options_.deadline_ms > 0) job_ends_ = Deadline::after_ms(options_.deadline_ms);
  return {};
}

// For programs that know PMIx and not Weft. Ours use the rendezvous unless WEFT_LAUNCHER says pmix.
Status Job::start_pmix(std::vector<std::string>& environment) {
  WEFT_ASSIGN(pmix_, PmixServer::start(options_.ranks));
  WEFT_ASSIGN(const auto settings, pmix_->environment_of(0));
  environment = with_settings(std::move(environment), settings);
  return {};
}

// Ranks come back only to a job that goes on without them.
Status Job::prepare_restarts() {
  if (options_.pmix || is_asked_for_pmix(environment_))
    return Status(Code::invalid_argument, "--restart: ranks cannot come back over PMIx");
  const auto is_policy = [](const std::string& entry) {
    return entry.starts_with("WEFT_ON_DEATH=");
  };
  const auto policy = std::ranges::find_if(environment_, is_policy);
  if (policy == environment_.end()) {
    environment_ = with_settings(std::move(environment_), {{"WEFT_ON_DEATH", "skip"}});
  } else if (*policy == "WEFT_ON_DEATH=fail") {
    return Status(Code::invalid_argument,
                  "--restart: with WEFT_ON_DEATH=fail the job ends when a rank dies");
  }
  return {};
}

// Starts a rank that has failed again, if it may be.
bool Job::restart(Rank rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  const int restarts = process.restarts + 1;
  // Once a rank has ended well the job ends, and nobody would let this one in.
  const bool is_ending = phase_ != Phase::running || has_one_ended_well_ || running_ == 0;
  if (is_ending || restarts > options_.restarts) return false;
  ::kill(-process.child.pid, SIGKILL);  // what it has left behind
  Result<Process> started = start_rank(rank);
  if (!started.ok()) {
    say(fmt::format("rank {} cannot be started again: {}", rank, started.status().text()));
    return false;
  }
  std::swap(process, *started);
  process.restarts = restarts;
  ++running_;
  say(fmt::format("rank {} is started again (pid {}), {} of {} times", rank, process.child.pid,
                  restarts, options_.restarts));
  processes_.push_back(*std::move(started));
  return true;
}

Result<Job::Process> Job::start_rank(Rank rank) const {
  const std::string number = std::to_string(rank);
  ChildOptions child;
  child.command = options_.command;
  child.environment =
      with_settings(environment_, {{"WEFT_RANK", number}, {"WEFT_LOCAL_RANK", number}});
  if (pmix_ != nullptr) {
    WEFT_ASSIGN(const auto settings, pmix_->environment_of(rank));
    child.environment = with_settings(std::move(child.environment), settings);
  }
  if (!cpus_.empty()) child.cpu = cpus_[static_cast<std::size_t>(rank) % cpus_.size()];
  child.must_bind = options_.binding == Binding::core;
  WEFT_ASSIGN(Child started, start_child(child));
  const std::string tag = options_.tag ? fmt::format("[{}] ", rank) : "";
  return Process{std::move(started), Tagger(tag), Tagger(tag)};
}

int Job::run() {
  while (phase_ != Phase::over) turn();
  if (exit_status_) return *exit_status_;
  return has_one_ended_well_ ? 0 : first_failure_.value_or(0);
}

void Job::turn() {
  // Descriptors first, then what each means: the order of the two passes below is the same.
  std::vector<pollfd> fds{{signals_.get(), POLLIN, 0},
                          {stdout_.pending.empty() ? -1 : stdout_.fd(), POLLOUT, 0},
                          {stderr_.pending.empty() ? -1 : stderr_.fd(), POLLOUT, 0}};
  for (const Process& process : processes_) {
    fds.push_back({process.ended ? -1 : process.child.pidfd.get(), POLLIN, 0});
    fds.push_back({stdout_.has_room() ? process.child.out.get() : -1, POLLIN, 0});
    fds.push_back({stderr_.has_room() ? process.child.err.get() : -1, POLLIN, 0});
  }
  if (::poll(fds.data(), fds.size(), poll_timeout_ms()) < 0 && errno != EINTR) {
    say(system_error("poll", errno).to_string());
    if (!exit_status_) exit_status_ = kOutputLost;
    (void)stderr_.flush();
    (void)end_all(pids());
    return enter(Phase::over, 0);
  }
  if (fds[0].revents != 0) read_signals();
  if (fds[1].revents != 0) flush(stdout_);
  if (fds[2].revents != 0) flush(stderr_);
  const std::size_t looked_at = processes_.size();  // a rank that is started again adds one
  for (std::size_t i = 0; i < looked_at; ++i) {
    const auto rank = static_cast<Rank>(i);
    if (fds[3 * i + 4].revents != 0 || fds[3 * i + 5].revents != 0 || phase_ == Phase::draining)
      read_output(rank);
    if (fds[3 * i + 3].revents != 0) note_end(rank);
  }
  forget_replaced();
  advance();
}

// Processes in whose place others have been started, once all that they have printed was read.
void Job::forget_replaced() {
  const auto is_over = [](const Process& process) {
    return !process.child.out.valid() && !process.child.err.valid() &&
           ::waitpid(process.child.pid, nullptr, WNOHANG) != 0;
  };
  processes_.erase(std::remove_if(processes_.begin() + options_.ranks, processes_.end(), is_over),
                   processes_.end());
}

void Job::advance() {
  const bool time_is_over = phase_ends_ && phase_ends_->passed();
  if (job_ends_ && job_ends_->passed()) give_up_on_deadline();
  switch (phase_) {
    case Phase::running:
      break;
    case Phase::reporting:
      if (!time_is_over || all_ended()) break;
      say(fmt::format("stopping {}", running_ranks()));
      signal_all(SIGTERM);
      enter(Phase::stopping, options_.grace_ms);
      break;
    case Phase::stopping:
      if (!time_is_over || all_ended()) break;
      say(fmt::format("killing {}", running_ranks()));
      signal_all(SIGKILL);
      enter(Phase::killing, kKillMs);
      break;
    case Phase::killing:
      if (time_is_over) running_ = 0;  // the kernel cannot end them; nor shall they hold us
      break;
    case Phase::draining:
      if (!has_open_streams() && stdout_.pending.empty() && stderr_.pending.empty())
        phase_ = Phase::over;
      return;
    case Phase::over:
      return;
  }
  if (!all_ended()) return;
  if (const int left = end_all(pids()); left > 0)
    say(fmt::format("{} processes could not be killed", left));
  phase_ = Phase::draining;
  phase_ends_.reset();
  job_ends_.reset();
}

void Job::enter(Phase phase, std::int64_t ms) {
  phase_ = phase;
  phase_ends_ = Deadline::after_ms(ms);
}

int Job::poll_timeout_ms() const {
  // All writers are gone: what the pipes hold can be read at once, if there is room for it.
  if (phase_ == Phase::draining) {
    const bool can_read = has_open_streams() && stdout_.has_room() && stderr_.has_room();
    return can_read || (stdout_.pending.empty() && stderr_.pending.empty()) ? 0 : -1;
  }
  int timeout = -1;
  for (const auto& deadline : {phase_ends_, job_ends_}) {
    if (deadline)
      timeout = timeout < 0 ? deadline->left_ms() : std::min(timeout, deadline->left_ms());
  }
  return timeout;
}

void Job::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      note_ends_without_pidfd();
      reap_adopted(pids());
    } else {
      interrupt(signal);
    }
  }
}

// Somebody wants the job to end: the first time the ranks are told, the second time they are
// killed.
void Job::interrupt(int signal) {
  if (!exit_status_) exit_status_ = 128 + signal;
  if (phase_ == Phase::draining) {
    phase_ = Phase::over;  // the output that nobody reads is not worth waiting for
  } else if (phase_ == Phase::running || phase_ == Phase::reporting) {
    signal_all(signal == SIGPIPE ? SIGTERM : signal);
    enter(Phase::stopping, options_.grace_ms);
  } else if (phase_ == Phase::stopping) {
    phase_ends_ = Deadline::after_ms(0);
  }
}

void Job::give_up_on_deadline() {
  job_ends_.reset();
  if (phase_ != Phase::running) return;
  say(fmt::format("the job has not ended after {} s; stopping {}",
                  static_cast<double>(options_.deadline_ms) / 1000, running_ranks()));
  exit_status_ = kDeadlineStatus;
  signal_all(SIGTERM);
  enter(Phase::stopping, options_.grace_ms);
}

// Where the kernel gives no pidfd (a filter of system calls forbids it), SIGCHLD tells that some rank
// has ended, and each is looked at.
void Job::note_ends_without_pidfd() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    if (!process.ended && !process.child.pidfd.valid()) note_end(static_cast<Rank>(i));
  }
}

void Job::note_end(Rank rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(process.child.pid), &info, WEXITED | WNOHANG | WNOWAIT) !=
          0 ||
      info.si_pid == 0) {
    return;
  }
  process.ended = true;
  process.child.pidfd.reset();
  --running_;
  const End end = end_of(info);
  // The others hear of it by number even when this rank never joined, or a child of it lives on.
  rendezvous_->declare_dead(rank, "it " + end.how);
  if (pmix_ != nullptr) pmix_->declare_dead(rank, end.status, "it " + end.how);
  has_one_ended_well_ |= end.status == 0;
  if (end.status == 0 || (phase_ != Phase::running && phase_ != Phase::reporting)) return;
  const bool others_go_on = options_.keeps_going && !all_ended();
  say(fmt::format("rank {} (pid {}) {}{}", rank, process.child.pid, end.how,
                  others_go_on ? "; the others go on" : ""));
  if (restart(rank)) return;
  if (options_.keeps_going) {
    if (!first_failure_) first_failure_ = end.status;
    return;
  }
  if (!exit_status_) exit_status_ = end.status;
  if (phase_ == Phase::running) enter(Phase::reporting, options_.grace_ms);
}

void Job::read_output(Rank rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  read_stream(process.child.out, process.out, stdout_);
  read_stream(process.child.err, process.err, stderr_);
}

void Job::read_stream(Fd& stream, Tagger& tagger, Sink& sink) {
  if (!stream.valid() || !sink.has_room()) return;
  std::array<char, 16 << 10> bytes;
  const ssize_t count = ::read(stream.get(), bytes.data(), bytes.size());
  if (count > 0) return tagger.feed({bytes.data(), static_cast<std::size_t>(count)}, sink.pending);
  const bool is_empty = count < 0 && (errno == EAGAIN || errno == EINTR);
  if (is_empty && phase_ != Phase::draining) return;
  tagger.end(sink.pending);
  stream.reset();
}

// As for any program: one whose reader is gone ends without a word, one whose disk is full says so.
void Job::flush(Sink& sink) {
  const int error = sink.flush();
  if (error == 0) return;
  if (error == EPIPE) return interrupt(SIGPIPE);
  say(fmt::format("cannot write standard {}: {}", sink.fd() == 1 ? "output" : "error",
                  errno_text(error)));
  if (!exit_status_) exit_status_ = kOutputLost;
  if (phase_ != Phase::draining) interrupt(SIGTERM);
}

void Job::signal_all(int signal) {
  for (const Process& process : processes_) {
    if (!process.ended) ::kill(-process.child.pid, signal);
  }
}

void Job::say(const std::string& text) {
  stderr_.pending += fmt::format("weft run: {}\n", text);
}

bool Job::has_open_streams() const {
  return std::ranges::any_of(
      processes_, [](const Process& p) { return p.child.out.valid() || p.child.err.valid(); });
}

std::vector<pid_t> Job::pids() const {
  std::vector<pid_t> result;
  for (const Process& process : processes_) result.push_back(process.child.pid);
  return result;
}

std::string Job::running_ranks() const {
  std::string text;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (!processes_[rank].ended) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  }
  return (running_ == 1 ? "rank " : "ranks ") + text;
}

}  // namespace weft
