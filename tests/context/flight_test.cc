// The flight recorder, as an operator has it: what a rank tells while others do not call, and the file at an error.
#include <stdlib.h>
#include <sys/stat.h>
#include <weft/metrics.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/live/live.h"
#include "tests/context/job.h"
#include "tools/weft/flight/judge.h"

namespace weft {
namespace {

void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.to_string();
}

std::vector<dumps::Verdict> judged(const std::string& text) {
  Result<dumps::Dump> dump = dumps::read_dump("here", text);
  EXPECT_TRUE(dump.ok()) << dump.status().to_string();
  if (!dump.ok()) return {};
  EXPECT_TRUE(dump->remarks.empty());
  return dumps::judge(dump->parts);
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A folder of the test's own, with mode 0700.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "weft-flight-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }

 private:
  std::string path_;
};

// Until the verdicts are as wanted, since ranks take a while to wait.
template <typename Done>
std::vector<dumps::Verdict> await(const std::function<std::string()>& look, Done&& done) {
  std::vector<dumps::Verdict> verdicts;
  for (const Deadline deadline = Deadline::after_ms(15'000); !deadline.passed();) {
    verdicts = judged(look());
    if (done(verdicts)) break;
    std::this_thread::yield();
  }
  return verdicts;
}

TEST(Flight, SaysWhoHasNotCalledWhatTheOthersWaitFor) {
  run_job(3, [&](Context& context) {
    Array<float> x(1 << 20, false), y(1 << 20, false);
    for (int i = 0; i < 20; ++i) expect_ok(context.barrier());
    if (context.rank() == 2) {
      const auto verdicts = await(flight, [](const auto& all) {
        return all.size() == 1 && all[0].waiting == std::vector<Rank>{0, 1};
      });
      ASSERT_EQ(verdicts.size(), 1U);
      const dumps::Verdict& told = verdicts[0];
      EXPECT_EQ(told.culprits, std::vector<Rank>{2});
      for (const char* part : {"rank 2 has not called allreduce #20 (4 MiB, f32)",
                               "ranks 0 and 1 have waited", "its last call was barrier #19"})
        EXPECT_NE(told.text.find(part), std::string::npos) << told.text;
    }
    expect_ok(context.allreduce(in(x.data(), x.size()), out(y.data(), y.size())));
    expect_ok(context.barrier());
  });
}

// Calls that repeat the one before have no record of their own, and are known all the same.
TEST(Flight, KnowsTheNumberOfCallsThatRepeat) {
  run_job(2, [&](Context& context) {
    Array<float> x(1, false), y(1, false);
    for (int i = 0; i < 1500; ++i)
      expect_ok(context.neighbor_allreduce(in(x.data(), 1), out(y.data(), 1)));
    if (context.rank() == 1) {
      const auto verdicts = await(flight, [](const auto& all) { return all.size() == 1; });
      ASSERT_EQ(verdicts.size(), 1U);
      EXPECT_NE(verdicts[0].text.find("rank 1 has not called barrier #1500"), std::string::npos)
          << verdicts[0].text;
      EXPECT_NE(verdicts[0].text.find("its last call was neighbor_allreduce #1499 (4 bytes, f32)"),
                std::string::npos)
          << verdicts[0].text;
    }
    expect_ok(context.barrier());
  });
}

TEST(Flight, SaysWhoseSendIsMissing) {
  run_job(2, [&](Context& context) {
    float x = 0;
    if (context.rank() == 1) {
      const auto verdicts = await(flight, [](const auto& all) { return all.size() == 1; });
      ASSERT_EQ(verdicts.size(), 1U);
      EXPECT_NE(verdicts[0].text.find("rank 1 has not called its part of send/recv (recv)"),
                std::string::npos)
          << verdicts[0].text;
      expect_ok(context.send(in(&x, 1), 0));
    } else {
      expect_ok(context.recv(out(&x, 1), 1));
    }
    expect_ok(context.barrier());
  });
}

TEST(Flight, SaysWhoLacksAName) {
  run_job(2, [&](Context& context) {
    Result<Named> named = context.named();
    ASSERT_TRUE(named.ok());
    float x = 0, y = 0;
    if (context.rank() == 1) {
      const auto verdicts = await(flight, [](const auto& all) {
        return !all.empty() && all[0].kind == dumps::Verdict::Kind::names;
      });
      ASSERT_FALSE(verdicts.empty());
      EXPECT_NE(
          verdicts[0].text.find("rank 1 has not submitted \"grad.7\" (allreduce), which rank 0"),
          std::string::npos)
          << verdicts[0].text;
      const std::string text = flight();
      const std::string_view record = R"({"name":"grad.7",)";
      EXPECT_EQ(text.find(record), text.rfind(record)) << text;  // recalled by its context alone
    }
    expect_ok(named->allreduce("grad.7", in(&x, 1), out(&y, 1)));
    expect_ok(named->end());
  });
}

TEST(Flight, IsWrittenWhenAContextFails) {
  const Folder folder;
  Config config = test_config();
  config.flight = folder.path("flight-{rank}.json");
  run_job(
      2,
      [&](Context& context) {
        Array<float> x(8, false), y(8, false);
        const std::size_t count = context.rank() == 0 ? 8 : 4;
        EXPECT_EQ(context.allreduce(in(x.data(), count), out(y.data(), count)).code(),
                  Code::mismatch);
      },
      config);
  std::vector<dumps::Part> parts;
  for (const Rank rank : {0, 1}) {
    const auto dump = dumps::read_dump(
        "rank", read_file(folder.path("flight-" + std::to_string(rank) + ".json")));
    ASSERT_TRUE(dump.ok()) << dump.status().to_string();
    parts.insert(parts.end(), dump->parts.begin(), dump->parts.end());
  }
  const auto verdicts = dumps::judge(parts);
  ASSERT_FALSE(verdicts.empty());
  EXPECT_NE(
      verdicts[0].text.find("operation #0 differs: rank 1 called allreduce of 4 x f32, rank 0 "
                            "called allreduce of 8 x f32"),
      std::string::npos)
      << verdicts[0].text;
}

TEST(Flight, IsToldByTheLiveSocketWhileTheOthersWait) {
  const Folder folder;
  Config config = test_config();
  config.live = folder.path();
  run_job(
      2,
      [&](Context& context) {
        expect_ok(context.barrier());  // both have their sockets
        if (context.rank() == 1) {
          const auto sockets = list_live(folder.path());
          ASSERT_TRUE(sockets.ok() && sockets->size() == 2) << sockets.status().to_string();
          const auto ask = [&] {
            auto answer = ask_live(sockets->front(), "flight 10", Deadline::after_ms(10'000));
            EXPECT_TRUE(answer.ok()) << answer.status().to_string();
            return answer.ok() ? answer->text : std::string();
          };
          const auto verdicts = await(ask, [](const auto& all) { return all.size() == 1; });
          ASSERT_EQ(verdicts.size(), 1U);
          EXPECT_EQ(verdicts[0].culprits, std::vector<Rank>{1});
          const auto metrics = ask_live(sockets->back(), "metrics", Deadline::after_ms(10'000));
          ASSERT_TRUE(metrics.ok()) << metrics.status().to_string();
          EXPECT_NE(metrics->text.find(
                        "weft_waiting_milliseconds{rank=\"0\",context=\"job\",peer=\"1\"}"),
                    std::string::npos)
              << metrics->text;
          EXPECT_EQ(
              ask_live(sockets->back(), "nonsense", Deadline::after_ms(10'000)).status().code(),
              Code::mismatch);
        }
        expect_ok(context.barrier());
      },
      config);
  EXPECT_TRUE(list_live(folder.path())->empty());
}

}  // namespace
}  // namespace weft
