// `weft run`, as a shell sees it: the built binary is started, its streams are read, its status is
// compared. Nothing sleeps; a test that hangs is ended by ctest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

// A running `weft`, and what it has printed so far.
class Weft {
 public:
  explicit Weft(const Words& arguments, const Words& extra_environment = {}) {
    std::array<int, 2> out_ends{};
    std::array<int, 2> err_ends{};
    EXPECT_EQ(::pipe2(out_ends.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(err_ends.data(), O_CLOEXEC), 0);
    out_ = Fd(out_ends[0]);
    err_ = Fd(err_ends[0]);
    const Fd out_write(out_ends[1]);
    const Fd err_write(err_ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, out_write.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, err_write.get(), 2);
    Words words = {WEFT_BINARY};
    words.insert(words.end(), arguments.begin(), arguments.end());
    Words entries = environment_with(extra_environment);
    EXPECT_EQ(::posix_spawn(&pid_, WEFT_BINARY, &actions, nullptr, pointers(words).data(),
                            pointers(entries).data()),
              0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~Weft() {
    if (pid_ > 0) (void)wait();
  }
  Weft(const Weft&) = delete;
  Weft& operator=(const Weft&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void close_out() { out_.reset(); }

  // Reads until the text is there `count` times, or the streams end.
  bool read_until(const std::string& text, int count = 1) {
    while (occurrences(text) < count) {
      if (!read_some()) return false;
    }
    return true;
  }

  // Reads to the end; the exit status, 128 + signal for a signal.
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  [[nodiscard]] bool said(const std::string& text) const {
    return err.find(text) != std::string::npos;
  }
  [[nodiscard]] Words sorted_lines() const {
    Words lines;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  }

  std::string out;
  std::string err;

 private:
  // What this process has, but for the variables that `changed` gives a value.
  static Words environment_with(const Words& changed) {
    Words entries = environment();
    for (const std::string& entry : changed) {
      const std::string name = entry.substr(0, entry.find('=') + 1);
      std::erase_if(entries, [&name](const std::string& old) { return old.starts_with(name); });
    }
    entries.insert(entries.end(), changed.begin(), changed.end());
    return entries;
  }
  static std::vector<char*> pointers(const Words& words) {
    std::vector<char*> result;
    for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
    result.push_back(nullptr);
    return result;
  }
  int occurrences(const std::string& text) const {
    int count = 0;
    for (std::size_t at = out.find(text); at != std::string::npos; at = out.find(text, at + 1))
      ++count;
    return count;
  }
  bool read_some() {
    std::array<pollfd, 2> fds{pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0}};
    if (!out_.valid() && !err_.valid()) return false;
    if (::poll(fds.data(), fds.size(), -1) < 0) return errno == EINTR;
    if (fds[0].revents != 0) take(out_, out);
    if (fds[1].revents != 0) take(err_, err);
    return true;
  }
  static void take(Fd& fd, std::string& into) {
    std::array<char, 64 << 10> bytes;
    const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
    if (count > 0) into.append(bytes.data(), static_cast<std::size_t>(count));
    if (count == 0) fd.reset();
  }

  pid_t pid_ = -1;
  Fd out_;
  Fd err_;
};

Words shell(int ranks, const std::string& script, const Words& options = {}) {
  Words words = {"run", "-n", std::to_string(ranks), "--grace", "0.2"};
  words.insert(words.end(), options.begin(), options.end());
  for (const std::string& word :
       {std::string("--"), std::string("sh"), std::string("-c"), script}) {
    words.push_back(word);
  }
  return words;
}

Words ranks_of(int ranks, const Words& arguments) {
  Words words = {"run", "-n", std::to_string(ranks), "--", RANK_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// The numbers of processes that a job has printed, each alone on its line behind the tag.
std::vector<Fd> watch_printed_pids(const Weft& weft) {
  std::vector<Fd> watched;
  for (const std::string& line : weft.sorted_lines()) {
    const pid_t pid = std::stoi(line.substr(line.find(' ') + 1));
    watched.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    EXPECT_TRUE(watched.back().valid()) << line;
  }
  return watched;
}

bool has_ended(const Fd& pidfd) {
  pollfd one{pidfd.get(), POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

TEST(WeftRun, TagsWholeLinesWithTheRank) {
  Weft weft(shell(3, "echo hello from $WEFT_RANK of $WEFT_SIZE; printf 'no newline'"));
  EXPECT_EQ(weft.wait(), 0);
  EXPECT_EQ(weft.sorted_lines(),
            (Words{"[0] hello from 0 of 3", "[0] no newline", "[1] hello from 1 of 3",
                   "[1] no newline", "[2] hello from 2 of 3", "[2] no newline"}));
  EXPECT_EQ(weft.err, "");
}

TEST(WeftRun, KeepsStreamsApartAndTagsOnlyIfAsked) {
  Weft weft(shell(1, "echo out; echo err >&2", {"--no-tag"}));
  EXPECT_EQ(weft.wait(), 0);
  EXPECT_EQ(weft.out, "out\n");
  EXPECT_EQ(weft.err, "err\n");
}

TEST(WeftRun, LosesNoOutputAndMixesNoLines) {
  Weft weft(
      shell(4, "i=0; while [ $i -lt 20000 ]; do echo line $i of $WEFT_RANK; i=$((i+1)); done"));
  EXPECT_EQ(weft.wait(), 0);
  const Words lines = weft.sorted_lines();
  ASSERT_EQ(lines.size(), 80'000U);
  for (const std::string& line : lines) {
    const std::string rank = line.substr(1, 1);
    ASSERT_EQ(line.substr(0, 9), "[" + rank + "] line ") << line;
    ASSERT_EQ(line.substr(line.size() - 5), " of " + rank) << line;
  }
}

TEST(WeftRun, BoundsLinesThatNeverEnd) {
  Weft weft(shell(1, "head -c 100000 /dev/zero | tr '\\0' x"));
  EXPECT_EQ(weft.wait(), 0);
  std::size_t payload = 0;
  for (const std::string& line : weft.sorted_lines()) {
    EXPECT_LE(line.size(), 20'000U);
    payload += line.size() - 4;
  }
  EXPECT_EQ(payload, 100'000U);
}

TEST(WeftRun, GivesRanksNoInput) {
  Weft weft(shell(2, "cat; echo end"));
  EXPECT_EQ(weft.wait(), 0);
  EXPECT_EQ(weft.sorted_lines(), (Words{"[0] end", "[1] end"}));
}

TEST(WeftRun, PassesOnTheStatusOfTheFirstRankThatFails) {
  Weft weft(shell(3, "[ $WEFT_RANK = 1 ] && exit 7; exec sleep 1000"));
  EXPECT_EQ(weft.wait(), 7);
  EXPECT_TRUE(weft.said("rank 1 (pid ")) << weft.err;
  EXPECT_TRUE(weft.said("exited with status 7")) << weft.err;
  EXPECT_TRUE(weft.said("stopping ranks 0, 2")) << weft.err;
  EXPECT_FALSE(weft.said("killing")) << weft.err;
}

TEST(WeftRun, NamesTheSignalThatKilledARank) {
  Weft weft(shell(2, "[ $WEFT_RANK = 0 ] && kill -SEGV $$; exec sleep 1000"));
  EXPECT_EQ(weft.wait(), 128 + SIGSEGV);
  EXPECT_TRUE(weft.said("was killed by signal 11 (Segmentation fault)")) << weft.err;
}

// Rank 0 prints its number and waits to be ended; rank 1 does `script`, which prints "ready".
Words failing_when_ready(const std::string& script) {
  return shell(2, "if [ $WEFT_RANK = 0 ]; then echo pid $$; exec sleep 1000; fi; " + script);
}

void end_rank_zero(Weft& weft) {
  ASSERT_TRUE(weft.read_until("ready"));
  ASSERT_TRUE(weft.read_until("pid "));
  ASSERT_TRUE(weft.read_until("\n", 2));
  ::kill(std::stoi(weft.out.substr(weft.out.find("pid ") + 4)), SIGUSR1);
}

TEST(WeftRun, LetsTheOtherRanksReportWithinTheGrace) {
  Weft weft(
      failing_when_ready("trap 'echo I was told; exit 0' TERM; echo ready; sleep 1000 & wait"));
  end_rank_zero(weft);
  EXPECT_EQ(weft.wait(), 128 + SIGUSR1);
  EXPECT_NE(weft.out.find("[1] I was told\n"), std::string::npos) << weft.out;
  EXPECT_FALSE(weft.said("killing")) << weft.err;
}

TEST(WeftRun, LetsTheOtherRanksGoOnIfAsked) {
  Weft weft(shell(2,
                  "[ $WEFT_RANK = 1 ] && trap 'exit 0' USR1; trap 'exit 9' TERM; "
                  "echo pid $$ of $WEFT_RANK; sleep 1000 & wait",
                  {"--keep-going"}));
  for (const std::string rank : {"0", "1"}) {
    const std::string tag = "[" + rank + "] pid ";
    ASSERT_TRUE(weft.read_until(" of " + rank));
    const pid_t pid = std::stoi(weft.out.substr(weft.out.find(tag) + tag.size()));
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    ::kill(pid, SIGUSR1);
    pollfd end{process.get(), POLLIN, 0};  // rank 0 has ended before rank 1 is told to
    ASSERT_EQ(::poll(&end, 1, 20'000), 1);
  }
  EXPECT_EQ(weft.wait(), 0) << weft.err;
  EXPECT_TRUE(weft.said("(User defined signal 1); the others go on")) << weft.err;
  // If none ends well, the job has failed.
  Weft failed(shell(2, "exit 7", {"--keep-going"}));
  EXPECT_EQ(failed.wait(), 7);
}

TEST(WeftRun, KillsARankThatIgnoresBeingTold) {
  Weft weft(failing_when_ready("trap '' TERM; echo ready; while :; do sleep 1000; done"));
  end_rank_zero(weft);
  EXPECT_EQ(weft.wait(), 128 + SIGUSR1);
  EXPECT_TRUE(weft.said("killing rank 1")) << weft.err;
}

TEST(WeftRun, NamesAProgramThatIsNotThere) {
  Weft missing({"run", "-n", "3", "--", "no-such-program"});
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_EQ(missing.err,
            "weft run: cannot start 'no-such-program': No such file or directory in any directory "
            "of PATH\n");
  Weft directory({"run", "-n", "1", "--", "/"});
  EXPECT_EQ(directory.wait(), 126);
}

TEST(WeftRun, RefusesABadCommandLine) {
  for (const Words& words :
       {Words{"run"}, Words{"run", "-n", "0", "--", "true"}, Words{"run", "-n", "2"},
        Words{"run", "-n", "x", "--", "true"}, Words{"run", "-n", "2000", "--", "true"},
        Words{"run", "-n", "1", "--bind-to", "socket", "--", "true"}, Words{}}) {
    EXPECT_EQ(Weft(words).wait(), 2);
  }
}

TEST(WeftRun, RefusesABadVariableOnce) {
  Weft weft({"run", "-n", "4", "--", "true"}, {"WEFT_DEADLINE_MS=abc"});
  EXPECT_EQ(weft.wait(), 2);
  EXPECT_EQ(weft.err,
            "weft run: WEFT_DEADLINE_MS=abc: expected a whole number of milliseconds from 1 to "
            "86400000\n");
}

TEST(WeftRun, ForwardsCtrlCAndLeavesNoProcess) {
  // Each rank leaves a child in its group and one in a session of its own, and prints both.
  Weft weft(shell(2, "sleep 1000 & echo $!; setsid sh -c 'echo $$; exec sleep 1000' & wait"));
  ASSERT_TRUE(weft.read_until("\n", 4));
  const std::vector<Fd> grandchildren = watch_printed_pids(weft);
  ::kill(weft.pid(), SIGINT);
  EXPECT_EQ(weft.wait(), 130);
  for (const Fd& grandchild : grandchildren) EXPECT_TRUE(has_ended(grandchild));
}

TEST(WeftRun, LeavesNoProcessOfARankThatEndedWell) {
  Weft weft(shell(2,
                  "sleep 1000 & echo $!; setsid sh -c 'echo $$; exec sleep 1000' & "
                  "while [ $WEFT_RANK = 0 ]; do sleep 1000; done; exit 0"));
  ASSERT_TRUE(weft.read_until("\n", 4));
  const std::vector<Fd> grandchildren = watch_printed_pids(weft);
  ::kill(weft.pid(), SIGTERM);
  EXPECT_EQ(weft.wait(), 143);
  for (const Fd& grandchild : grandchildren) EXPECT_TRUE(has_ended(grandchild));
}

TEST(WeftRun, ASecondCtrlCDoesNotWaitForTheGrace) {
  Weft weft({"run", "-n", "1", "--grace", "3600", "--", "sh", "-c",
             "trap 'echo once' INT; echo ready; while :; do sleep 1000 & wait; done"});
  ASSERT_TRUE(weft.read_until("ready"));
  ::kill(weft.pid(), SIGINT);
  ASSERT_TRUE(weft.read_until("once"));
  ::kill(weft.pid(), SIGINT);
  EXPECT_EQ(weft.wait(), 130);
}

TEST(WeftRun, RanksDieWithIt) {
  Weft weft(shell(2, "echo $$; exec sleep 1000"));
  ASSERT_TRUE(weft.read_until("\n", 2));
  std::vector<Fd> ranks = watch_printed_pids(weft);
  ::kill(weft.pid(), SIGKILL);
  EXPECT_EQ(weft.wait(), 128 + SIGKILL);
  for (const Fd& rank : ranks) {
    pollfd one{rank.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&one, 1, 30'000), 1);
  }
}

TEST(WeftRun, EndsWhenItsReaderHasGone) {
  Weft weft(shell(1, "while echo line; do :; done; exec sleep 1000"));
  ASSERT_TRUE(weft.read_until("line"));
  weft.close_out();
  EXPECT_EQ(weft.wait(), 128 + SIGPIPE);
}

TEST(WeftRun, StopsAJobAtItsDeadline) {
  Weft weft(shell(2, "exec sleep 1000", {"--deadline", "0.1"}));
  EXPECT_EQ(weft.wait(), 124);
  EXPECT_TRUE(weft.said("has not ended after 0.1 s; stopping ranks 0, 1")) << weft.err;
}

TEST(WeftRun, BindsRanksToCoresWhenAsked) {
  Weft weft(
      shell(2, "grep -c '^Cpus_allowed_list:.[0-9]*$' /proc/self/status", {"--bind-to", "core"}));
  EXPECT_EQ(weft.wait(), 0);
  EXPECT_EQ(weft.sorted_lines(), (Words{"[0] 1", "[1] 1"}));
}

TEST(WeftRun, RanksMeet) {
  Weft weft(ranks_of(4, {"meet"}));
  EXPECT_EQ(weft.wait(), 0);
  EXPECT_EQ(weft.sorted_lines(), (Words{"[0] met 3 others", "[1] met 3 others", "[2] met 3 others",
                                        "[3] met 3 others"}));
  EXPECT_TRUE(weft.said("[2] no error\n")) << weft.err;
}

// What ranks meet through: the rendezvous of `weft run`, or its PMIx server. One meaning.
class WeftRunOver : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("pmix") && !has_pmix()) GTEST_SKIP() << "libpmix is not here";
  }
  static bool has_pmix() {
    Weft weft({"run", "--pmix", "-n", "1", "--", "true"}, launcher());
    const int status = weft.wait();
    EXPECT_TRUE(status == 0 || status == 127) << status << weft.err;  // 127: unavailable
    return status == 0;
  }
  // LeakSanitizer dies of the plug-ins and threads that libpmix leaves.
  static Words launcher() {
    return {std::string("WEFT_LAUNCHER=") + GetParam(), "ASAN_OPTIONS=detect_leaks=0"};
  }
};

INSTANTIATE_TEST_SUITE_P(Launchers, WeftRunOver, ::testing::Values("weft", "pmix"),
                         [](const auto& launcher) { return std::string(launcher.param); });

TEST_P(WeftRunOver, RanksGetWhatTheOthersPut) {
  Weft weft(ranks_of(4, {"exchange"}), launcher());
  EXPECT_EQ(weft.wait(), 0) << weft.err;
  EXPECT_EQ(weft.sorted_lines(),
            (Words{"[0] exchanged with 3 others", "[1] exchanged with 3 others",
                   "[2] exchanged with 3 others", "[3] exchanged with 3 others"}));
}

TEST_P(WeftRunOver, RanksMayLeaveAndJoinAgain) {
  Weft weft(ranks_of(3, {"again"}), launcher());
  EXPECT_EQ(weft.wait(), 0) << weft.err;
  EXPECT_EQ(weft.sorted_lines(),
            (Words{"[0] round 0", "[0] round 1", "[0] round 2", "[1] round 0", "[1] round 1",
                   "[1] round 2", "[2] round 0", "[2] round 1", "[2] round 2"}));
}

TEST_P(WeftRunOver, ARankThatIsLateIsNamedAndWaitedForAgain) {
  Weft weft(ranks_of(3, {"late"}), launcher());
  EXPECT_EQ(weft.wait(), 0) << weft.err;
  const Words lines = weft.sorted_lines();
  ASSERT_EQ(lines.size(), 5U) << weft.out;
  EXPECT_EQ(lines[0], "[0] met 2 others");
  EXPECT_EQ(lines[1].find("[0] timed_out: fence: ranks 1, 2 "), 0U) << lines[1];
  EXPECT_EQ(lines[2].find("[0] timed_out: get 'late': rank 1 "), 0U) << lines[2];
}

TEST_P(WeftRunOver, RanksHearOfADeath) {
  Weft weft(ranks_of(4, {"die", "2"}), launcher());
  EXPECT_EQ(weft.wait(), 128 + SIGKILL);
  const Words lines = weft.sorted_lines();
  for (const char* rank : {"[0]", "[1]", "[3]"}) {
    EXPECT_EQ(std::ranges::count(lines, rank + std::string(" rank 2 died")), 1)
        << weft.out << weft.err;
  }
}

TEST_P(WeftRunOver, RanksHearOfARankThatNeverJoined) {
  Weft weft(ranks_of(3, {"absent", "1"}), launcher());
  EXPECT_EQ(weft.wait(), 5);
  EXPECT_TRUE(weft.said("[0] peer_died: rank 1 died: it exited with status 5")) << weft.err;
  EXPECT_TRUE(weft.said("[2] peer_died: rank 1 died: it exited with status 5")) << weft.err;
}

// Whoever names a PMIx job may join it.
TEST(WeftRunPmix, TheNameOfAJobIsASecret) {
  Weft first({"run", "--pmix", "-n", "1", "--", "sh", "-c", "echo $PMIX_NAMESPACE"},
             {"ASAN_OPTIONS=detect_leaks=0"});
  const int status = first.wait();
  if (status == 127) GTEST_SKIP() << "libpmix is not here";
  ASSERT_EQ(status, 0) << first.err;
  Weft second({"run", "--pmix", "-n", "1", "--", "sh", "-c", "echo $PMIX_NAMESPACE"},
              {"ASAN_OPTIONS=detect_leaks=0"});
  EXPECT_EQ(second.wait(), 0) << second.err;
  EXPECT_GE(first.out.size(), 64U) << first.out;
  EXPECT_NE(first.out.substr(0, 32), second.out.substr(0, 32));
}

TEST(WeftConfig, SaysWhoStartedTheProcess) {
  Weft alone({"config"});
  EXPECT_EQ(alone.wait(), 0);
  EXPECT_NE(alone.out.find("alone: no launcher's variables are set"), std::string::npos)
      << alone.out;
  Weft rank({"run", "-n", "1", "--", WEFT_BINARY, "config"});
  EXPECT_EQ(rank.wait(), 0);
  EXPECT_NE(rank.out.find("weft: WEFT_RANK is set"), std::string::npos) << rank.out;
}

TEST(WeftConfig, ShowsValueAndSource) {
  Weft weft({"config"}, {"WEFT_SLOTS=5", "WEFT_JOB_KEY=0123456789abcdef"});
  EXPECT_EQ(weft.wait(), 0);
  const Words lines = weft.sorted_lines();
  const auto line_of = [&](const std::string& name) {
    return *std::ranges::find_if(lines,
                                 [&](const std::string& line) { return line.starts_with(name); });
  };
  EXPECT_NE(line_of("WEFT_SLOTS").find("5             environment"), std::string::npos);
  EXPECT_NE(line_of("WEFT_CHANNELS").find("8             default"), std::string::npos);
  EXPECT_EQ(weft.out.find("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace weft
