// The live socket: who is answered, and what everybody else costs.
#include "engine/live/live.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/base/heard.h"

namespace weft {
namespace {

constexpr int kPatienceMs = 20'000;

class Live : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "weft-live-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Result<std::shared_ptr<LiveServer>> open(
      const std::string& key = "a key of this test", Rank rank = 0) const {
    return LiveServer::open({.folder = folder_,
                             .job = live_job(key),
                             .rank = rank,
                             .answer = [](std::string_view question) -> std::string {
                               if (question == "much") return std::string(8 << 20, 'x');
                               return question == "who" ? "rank\n" : "";
                             }});
  }
  [[nodiscard]] LiveSocket socket() const { return list_live(folder_).value().front(); }
  [[nodiscard]] Fd stranger() const {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, socket().path.c_str());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  [[nodiscard]] Result<LiveAnswer> ask(const std::string& question = "who") const {
    return ask_live(socket(), question, Deadline::after_ms(kPatienceMs));
  }

  std::string folder_;
};

TEST_F(Live, AnswersItsOwnUserWhoNamesTheJob) {
  const auto server = open();
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  const auto answer = ask();
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(answer->text, "rank\n");
  EXPECT_EQ(answer->process, ::getpid());
  EXPECT_EQ(ask("much")->text.size(), 8U << 20);
  EXPECT_EQ(ask("why").status().text(), "no such question: why");
  struct stat found {};
  ASSERT_EQ(::stat(folder_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0700U);
}

TEST_F(Live, AnotherJobIsRefused) {
  const auto server = open();
  LiveSocket other = socket();
  other.job = live_job("the key of another job");
  const auto answer = ask_live(other, "who", Deadline::after_ms(kPatienceMs));
  EXPECT_EQ(answer.status().code(), Code::mismatch);
  EXPECT_EQ(answer.status().text(), "another job");
}

TEST_F(Live, AnotherVersionAndGarbageAreSentAway) {
  const auto server = open();
  const Fd other = stranger();
  ASSERT_EQ(::send(other.get(), "weft-live 2 x y\n", 16, MSG_NOSIGNAL), 16);
  EXPECT_EQ(heard(other, kPatienceMs), "error another version: this rank speaks weft-live 1\n");
  const Fd garbage = stranger();
  const std::string much(4096, 'G');
  (void)::send(garbage.get(), much.data(), much.size(), MSG_NOSIGNAL);
  EXPECT_EQ(heard(garbage, kPatienceMs), "");
}

// Silent ones, and those that say half a line, are ended after a second, and delay nobody.
// A rank whose process is stopped: the kernel lets others connect, and nobody answers.
TEST_F(Live, ARankThatDoesNotAnswerDelaysNoOther) {
  constexpr int kGivenMs = 2000;
  const auto server = open();
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  LiveSocket stopped = socket();
  stopped.path = folder_ + "/stopped";
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, stopped.path.c_str());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const std::vector<LiveSocket> all{stopped, socket()};
  const auto answers = ask_live(all, "who", Deadline::after_ms(kGivenMs));
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].status().code(), Code::timed_out);
  ASSERT_TRUE(answers[1].ok()) << answers[1].status().to_string();
  EXPECT_EQ(answers[1]->text, "rank\n");
}

TEST_F(Live, SilentCallersKeepNobodyOutAndAreEnded) {
  const auto server = open();
  std::vector<Fd> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(stranger());
    if (i % 2 != 0) (void)::send(silent.back().get(), "weft-li", 7, MSG_NOSIGNAL);
  }
  EXPECT_TRUE(ask().ok());
  for (const Fd& each : silent) EXPECT_EQ(heard(each, kPatienceMs), "");
}

TEST_F(Live, ACrowdCostsNoMoreThanItsBound) {
  const auto server = open();
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (int i = 0; i < 10'000; ++i) (void)stranger();
  std::vector<Fd> crowd;
  for (int i = 0; i < 40; ++i) crowd.push_back(stranger());
  EXPECT_TRUE(ask().ok());
  // Ours, the server's ends of them, and a few that are opened meanwhile.
  EXPECT_LE(descriptors() - before, 40 + static_cast<int>(LiveServer::kMostClients) + 2);
}

TEST_F(Live, WhoDoesNotTakeItsAnswerDelaysNobody) {
  const auto server = open();
  const Fd slow = stranger();
  const std::string line = "weft-live 1 " + socket().job + " much\n";
  ASSERT_EQ(::send(slow.get(), line.data(), line.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(line.size()));
  EXPECT_TRUE(ask().ok());
}

TEST_F(Live, AFolderThatOthersMayEnterIsRefused) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  const Status status = open().status();
  EXPECT_EQ(status.code(), Code::no_permission);
  EXPECT_EQ(status.text(),
            "WEFT_LIVE: others may enter the folder " + folder_ + " (chmod 700 " + folder_ + ")");
  EXPECT_EQ(list_live(folder_).status().code(), Code::no_permission);
}

TEST_F(Live, AFolderOfAnotherUserOrThatCannotBeMadeIsAnError) {
  std::filesystem::create_symlink("/", folder_ + "/link");
  folder_ += "/link";
  EXPECT_NE(open().status().text().find("is no folder"), std::string::npos);
  folder_ = folder_.substr(0, folder_.size() - 5);
  std::ofstream(folder_ + "/file") << "";
  folder_ += "/file";
  EXPECT_NE(open().status().text().find(folder_), std::string::npos);
  folder_ += "/below";
  EXPECT_NE(open().status().text().find(folder_), std::string::npos);
  folder_ = folder_.substr(0, folder_.size() - 11);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
    const Status status = open().status();
    EXPECT_EQ(status.code(), Code::no_permission);
    EXPECT_NE(status.text().find("belongs to user 12345"), std::string::npos) << status.text();
    ASSERT_EQ(::chown(folder_.c_str(), 0, 0), 0);
  }
}

TEST_F(Live, APathThatIsTooLongIsAnError) {
  std::string folder = folder_ + "/" + std::string(90, 'a');
  const auto server =
      LiveServer::open({.folder = folder, .job = live_job("k"), .rank = 0, .answer = {}});
  EXPECT_EQ(server.status().code(), Code::invalid_argument);
  EXPECT_NE(server.status().text().find("is too long for a socket"), std::string::npos);
}

// A process that was killed leaves its socket: whoever asks is told so, and the next rank removes it.
TEST_F(Live, ASocketOfADeadProcessIsToldAndRemoved) {
  const std::string path = folder_ + "/" + live_job("k") + "-3-4242";
  {
    const Fd left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    ASSERT_EQ(::bind(left.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(left.get(), 1), 0);
  }
  EXPECT_EQ(socket().rank, 3);
  EXPECT_EQ(ask().status().text(), "its process has ended");
  const auto server = open();
  ASSERT_TRUE(server.ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(ask().ok());
}

TEST_F(Live, TheSocketGoesWithItsServer) {
  {
    const auto server = open();
    EXPECT_EQ(list_live(folder_)->size(), 1U);
  }
  EXPECT_TRUE(list_live(folder_)->empty());
  EXPECT_TRUE(list_live(folder_ + "/nowhere")->empty());
}

}  // namespace
}  // namespace weft
