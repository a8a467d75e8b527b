// weft top: the causes that it names from looks at the ranks, and what Prometheus is given.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "engine/bootstrap/bootstrap.h"
#include "tests/base/heard.h"
#include "tools/weft/flight/metric_text.h"
#include "tools/weft/top/observe.h"
#include "tools/weft/top/serve.h"
#include "tools/weft/top/show.h"

namespace weft::dumps {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMs;
constexpr int kStepMs = 25;

// A rank that was in an operation of 1 MiB for `in_ms` of each of the last 40 steps, which took a second. Clocks of ranks have
// nothing in common.
Part rank_of(Rank rank, std::int64_t in_ms) {
  Part part;
  part.context = "job";
  part.job = "a";
  part.host = rank < 2 ? "node0" : "node1";
  part.rank = part.rank_in_job = rank;
  part.size = 4;
  part.process = 100 + rank;
  part.clock_ns = (10 + 1000 * rank) * kSecond;
  part.time_ns = 36'000 * kSecond;
  part.next = 60;
  for (int step = 0; step < 40; ++step) {
    Op op;
    op.op = "allreduce";
    op.state = "done";
    op.type = "f32";
    op.count = 1 << 18;
    op.number = static_cast<std::uint64_t>(20 + step);
    const std::int64_t end = part.clock_ns - (39 - step) * kStepMs * kMs;
    if (in_ms != 0) op.began_ns = end - in_ms * kMs;
    if (in_ms != 0) op.ended_ns = end;
    part.ops.push_back(op);
  }
  return part;
}

std::vector<Part> ranks_with(const std::vector<std::int64_t>& in_ms) {
  std::vector<Part> parts;
  for (const std::int64_t each : in_ms)
    parts.push_back(rank_of(static_cast<Rank>(parts.size()), each));
  return parts;
}

std::vector<Part> a_second_before(std::vector<Part> parts) {
  for (Part& part : parts) {
    part.clock_ns -= kSecond;
    part.time_ns -= kSecond;
    part.next -= 40;
    part.ops.clear();
  }
  return parts;
}

// Over all rails of a host.
Result<double> as_the_rates(const RatedScene& scene) {
  EXPECT_EQ(scene.hosts.size(), 2U);
  EXPECT_EQ(scene.ranks, 2);
  EXPECT_EQ(scene.bytes, std::size_t{1} << 20);
  double gbit = 0;
  for (const auto& [rail, rate] : scene.hosts.front().gbit_per_s) gbit += rate;
  return static_cast<double>(scene.bytes) / gbit;
}

View seen(const std::vector<Part>& parts) {
  Observer observer(as_the_rates);
  EXPECT_TRUE(observer.next(a_second_before(parts)).causes.empty());
  return observer.next(parts);
}

TEST(Top, NamesTheRankForWhichTheOthersWaitAndWhatThatCosts) {
  const View view = seen(ranks_with({20, 20, 0, 20}));
  ASSERT_EQ(view.ranks.size(), 4U);
  EXPECT_EQ(view.ranks[0].calls_per_s, 40);
  EXPECT_NEAR(view.ranks[0].in_operations, 0.8, 0.01);
  ASSERT_EQ(view.causes.size(), 1U);
  EXPECT_EQ(view.causes[0].kind, "slow_rank");
  EXPECT_EQ(view.causes[0].ranks, std::vector<Rank>{2});
  EXPECT_NEAR(view.causes[0].gain, 0.8, 0.01);
  EXPECT_EQ(
      view.causes[0].text,
      "rank 2 is 5.0x slow: the usual rank is in operations for 80% of the time, and it for 0%; "
      "at the usual pace a step would take 80% less");
}

// What is left is the work of the second slowest.
TEST(Top, PromisesNoMoreThanTheNextSlowestRankLeaves) {
  const View view = seen(ranks_with({20, 15, 0, 20}));
  ASSERT_EQ(view.causes.size(), 1U);
  EXPECT_EQ(view.causes[0].ranks, std::vector<Rank>{2});
  EXPECT_NEAR(view.causes[0].gain, 0.6, 0.01);
}

TEST(Top, SaysWhatTheKernelKnowsOfASlowRank) {
  for (const bool sleeps : {false, true}) {
    std::vector<Part> parts = ranks_with({20, 20, 0, 20});
    Observer observer(as_the_rates);
    (void)observer.next(a_second_before(parts));
    parts[2].ran_ns = sleeps ? kSecond / 25 : kSecond / 2;
    parts[2].delayed_ns = sleeps ? 0 : kSecond / 2;
    const View view = observer.next(parts);
    ASSERT_EQ(view.causes.size(), 1U);
    EXPECT_NE(view.causes[0].text.find(
                  sleeps ? "it uses 4% of a core: it sleeps, or waits for something else"
                         : "others have its core: it was ready and did not run for 50%"),
              std::string::npos)
        << view.causes[0].text;
  }
}

TEST(Top, BlamesNobodyWhereAllAreAlike) {
  EXPECT_TRUE(seen(ranks_with({20, 20, 20, 20})).causes.empty());
  EXPECT_TRUE(seen(ranks_with({0, 0, 0, 0})).causes.empty());
  EXPECT_TRUE(seen(ranks_with({22, 20, 15, 21})).causes.empty());
}

std::vector<Part> with_rails(std::int64_t in_ms, double slow_share) {
  std::vector<Part> parts = ranks_with({in_ms, in_ms, in_ms, in_ms});
  for (Part& part : parts)
    for (const char* rail : {"ucx:eth0", "ucx:eth1"}) {
      Rail& of = part.rails.emplace_back();
      of.rail = rail;
      of.rate = of.best = 1e9;
      of.peers = 2;
    }
  for (Part& part : parts) part.rails[1].rate = slow_share * 1e9;
  return parts;
}

TEST(Top, NamesARailThatIsSlowSinceWhenAndWhatThatCosts) {
  Observer observer(as_the_rates);
  EXPECT_TRUE(observer.next(a_second_before(with_rails(20, 1))).causes.empty());
  const View view = observer.next(with_rails(20, 0.4));
  ASSERT_EQ(view.causes.size(), 1U);
  const Cause& cause = view.causes[0];
  EXPECT_EQ(cause.kind, "slow_rail");
  EXPECT_EQ(cause.rail, "ucx:eth1");
  EXPECT_EQ(cause.ranks, (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(cause.text.find("rail ucx:eth1 of ranks 0-3 runs at 0.40 of its rate since "), 0U)
      << cause.text;
  EXPECT_NEAR(cause.gain, 0.8 * (1 - 1.4 / 2), 0.01);  // of the time in operations
  EXPECT_NE(cause.text.find("at its usual rate a step would take 24% less"), std::string::npos);
  // The next look has the same time, and a rail that has recovered is no cause.
  EXPECT_EQ(observer.next(with_rails(20, 0.4)).causes.size(), 1U);
  EXPECT_TRUE(observer.next(with_rails(20, 0.9)).causes.empty());
}

TEST(Top, DoesNotKnowSinceWhenARailIsSlowThatWasSoAtTheFirstLook) {
  Observer observer(as_the_rates);
  (void)observer.next(a_second_before(with_rails(20, 0.4)));
  const View view = observer.next(with_rails(20, 0.4));
  ASSERT_EQ(view.causes.size(), 1U);
  EXPECT_EQ(view.causes[0].text.find("since"), std::string::npos) << view.causes[0].text;
}

TEST(Top, NamesARailThatIsLost) {
  std::vector<Part> parts = ranks_with({0, 0});
  Rail& lost = parts[1].rails.emplace_back();
  lost.rail = "ucx:eth0";
  lost.lost = 1;
  Observer observer(as_the_rates);
  const View view = observer.next(parts);
  ASSERT_EQ(view.causes.size(), 1U);
  EXPECT_EQ(view.causes[0].text, "rail ucx:eth0 of rank 1 does not lead to 1 of its peers");
}

TEST(Top, SaysWhoHasNotCalled) {
  std::vector<Part> parts = ranks_with({0, 0});
  Op waits;
  waits.op = "barrier";
  waits.state = "runs";
  waits.number = 60;
  waits.began_ns = parts[0].clock_ns - 800 * kMs;
  waits.waits = {{1, "data"}};
  parts[0].ops.push_back(waits);
  parts[0].next = 61;
  const View view = seen(parts);
  ASSERT_FALSE(view.causes.empty());
  EXPECT_EQ(view.causes[0].kind, "absent");
  EXPECT_EQ(view.causes[0].text.find(
                "rank 1 has not called barrier #60, for which rank 0 has waited 800 ms"),
            0U)
      << view.causes[0].text;
  EXPECT_EQ(view.ranks[0].waits_for, std::vector<Rank>{1});
}

TEST(Top, KeepsJobsApart) {
  std::vector<Part> parts = ranks_with({20, 20, 0, 20});
  for (const Part& part : ranks_with({20, 20})) {
    parts.push_back(part);
    parts.back().job = "b";
  }
  const View view = seen(parts);
  EXPECT_EQ(view.ranks.size(), 6U);
  ASSERT_EQ(view.causes.size(), 1U);
  EXPECT_EQ(view.causes[0].job, "a");
  EXPECT_NE(view_text(view, {}).find("(job a)"), std::string::npos);
}

// In an operation of 1 MiB that began 800 ms ago.
void wait_for(Part& part, Rank rank) {
  Op waits;
  waits.op = "allreduce";
  waits.state = "runs";
  waits.type = "f32";
  waits.count = 1 << 18;
  waits.number = 60;
  waits.began_ns = part.clock_ns - 800 * kMs;
  waits.waits = {{rank, "data"}};
  part.ops.push_back(waits);
  part.next = 61;
}

std::vector<std::string> told_in(const View& view) {
  std::vector<std::string> all;
  for (const Cause& cause : view.causes) all.push_back(cause.kind + " " + cause.job);
  return all;
}

// An absent rank of one job says nothing about the waits of another.
TEST(Top, KeepsWhatIsWrongInJobsApart) {
  std::vector<Part> parts = ranks_with({0, 0});
  wait_for(parts[0], 1);
  wait_for(parts[1], 0);
  for (const Part& part : ranks_with({0, 0})) {
    parts.push_back(part);
    parts.back().job = "b";
  }
  wait_for(parts[2], 1);
  const std::vector<std::string> causes = told_in(seen(parts));
  EXPECT_EQ(causes, (std::vector<std::string>{"absent b", "waits a", "slow_rank b"}));
}

// After a rail has slowed down, a large operation lasts while its bytes come.
TEST(Top, RanksWhoseBytesComeDoNotWaitForEachOtherInVain) {
  for (const bool moves : {true, false}) {
    std::vector<Part> parts = with_rails(0, 0.4);
    for (const Rank rank : {0, 1, 2, 3})
      wait_for(parts[static_cast<std::size_t>(rank)], rank % 2 == 0 ? rank + 1 : rank - 1);
    Observer observer(as_the_rates);
    (void)observer.next(a_second_before(parts));
    for (Part& part : parts) part.rails[1].bytes += moves ? 1 << 20 : 0;
    const std::vector<std::string> causes = told_in(observer.next(parts));
    EXPECT_EQ(causes, moves ? (std::vector<std::string>{"slow_rail a"})
                            : (std::vector<std::string>{"waits a", "waits a", "slow_rail a"}));
  }
}

TEST(TopMetrics, EachFamilyHasOneHeadAndSamplesSayWhoseTheyAre) {
  MetricText all;
  const std::string text =
      "# HELP weft_a_total A.\n# TYPE weft_a_total counter\nweft_a_total{rank=\"0\",x=\"} 1\"} 7\n"
      "# HELP weft_b B.\n# TYPE weft_b gauge\nweft_b 3\nnonsense\n";
  all.add(text, {{"host", "n\"0"}, {"rank", "0"}});
  all.add(text, {{"host", "n1"}, {"rank", "1"}});
  const std::string merged = all.text();
  EXPECT_EQ(merged,
            "# HELP weft_a_total A.\n# TYPE weft_a_total counter\n"
            "weft_a_total{rank=\"0\",x=\"} 1\",host=\"n\\\"0\"} 7\n"
            "weft_a_total{rank=\"0\",x=\"} 1\",host=\"n1\"} 7\n"
            "# HELP weft_b B.\n# TYPE weft_b gauge\n"
            "weft_b{host=\"n\\\"0\",rank=\"0\"} 3\nweft_b{host=\"n1\",rank=\"1\"} 3\n");
  MetricText again;
  again.add(merged, {{"host", "other"}});
  EXPECT_EQ(again.text(), merged);
}

TEST(TopMetrics, AreAnsweredOverHttpAndNothingElseIs) {
  const std::string metrics = "weft_a 1\n";
  const std::string good = http_answer("GET /metrics?x=1 HTTP/1.1\r\nHost: a", metrics);
  EXPECT_EQ(good.find("HTTP/1.1 200 OK\r\n"), 0U);
  EXPECT_TRUE(good.ends_with("Content-Length: 9\r\n" + good.substr(good.find("X-Content"))));
  EXPECT_TRUE(good.ends_with("\r\n\r\nweft_a 1\n"));
  EXPECT_TRUE(http_answer("HEAD /metrics HTTP/1.1", metrics).ends_with("\r\n\r\n"));
  EXPECT_EQ(http_answer("GET /etc/passwd HTTP/1.1", metrics).find("HTTP/1.1 404 "), 0U);
  EXPECT_EQ(http_answer("POST /metrics HTTP/1.1", metrics).find("HTTP/1.1 405 "), 0U);
  for (const char* bad : {"", "GET", "GET /metrics", "GET /metrics SPDY", "\x16\x03\x01"})
    EXPECT_EQ(http_answer(bad, metrics).find("HTTP/1.1 400 "), 0U) << bad;
}

constexpr int kPatienceMs = 20'000;

class Http : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<MetricServer>> server = MetricServer::open("127.0.0.1:0");
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
    server_->publish("weft_a 1\n");
  }
  [[nodiscard]] Fd caller() const {
    const std::string own = server_->address();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(own.substr(own.find(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static void say(const Fd& fd, const std::string& text) {
    (void)!::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  std::unique_ptr<MetricServer> server_;
};

// Each beside the other, and each in pieces.
TEST_F(Http, AnswersBesideSilentCallersAndACrowd) {
  std::vector<Fd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(caller());
  const Fd one = caller();
  say(one, "GET /met");
  say(one, "rics HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string text = heard(one, kPatienceMs);
  EXPECT_EQ(text.find("HTTP/1.1 200 OK\r\n"), 0U) << text;
  EXPECT_TRUE(text.ends_with("\r\n\r\nweft_a 1\n")) << text;
}

TEST_F(Http, EndsSilentCallers) {
  const Fd one = caller();
  say(one, "GET /metrics HTTP/1.1\r\n");
  EXPECT_EQ(heard(one, kPatienceMs), "");
}

TEST_F(Http, RefusesGarbageAndHeadsWithoutAnEnd) {
  const Fd garbage = caller();
  say(garbage, "\x16\x03\x01\r\n\r\n");
  EXPECT_EQ(heard(garbage, kPatienceMs).find("HTTP/1.1 400 "), 0U);
  const Fd endless = caller();
  say(endless, std::string(MetricServer::kMostBytes + 1, 'x'));
  EXPECT_EQ(heard(endless, kPatienceMs).find("HTTP/1.1 431 "), 0U);
}

TEST_F(Http, SaysWhichAddressIsTaken) {
  const auto second = MetricServer::open(server_->address());
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().text().find(server_->address()), std::string_view::npos);
}

}  // namespace
}  // namespace weft::dumps
