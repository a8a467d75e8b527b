// How the two commands of `weft perf wire` find each other.
#include <gtest/gtest.h>
#include <weft/store.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "engine/net/net.h"
#include "tests/tools/command.h"
#include "tools/weft/wire/meet.h"

namespace weft {
namespace {

constexpr std::int64_t kLongMs = 60'000;  // never reached

Address free_address() {
  const Fd probe = net::listen_on({"127.0.0.1", 0}, 1).value();
  return {"127.0.0.1", net::port_of(probe).value()};
}

// A listening side in a thread.
class Listener {
 public:
  explicit Listener(std::string key)
      : key_(std::move(key)), thread_([this] {
          result_ = await_caller(address_, key_, Deadline::after_ms(kLongMs),
                                 [this](const std::string& line) { take(line); });
        }) {}
  Result<Fd> end() {
    thread_.join();
    return std::move(result_);
  }
  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] std::size_t lines() {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }
  [[nodiscard]] bool said(const std::string& word) {
    const std::lock_guard lock(mutex_);
    return mentions(lines_, word);
  }

 private:
  void take(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }

  Address address_ = free_address();
  std::string key_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  Result<Fd> result_ = Status(Code::unavailable, "not yet");
  std::thread thread_;
};

Result<Fd> call(const Address& address, const std::string& key) {
  return call_listener(address, key, Deadline::after_ms(kLongMs), [](const std::string&) {});
}

TEST(WireMeet, WhoKnowsTheKeyIsServedBesideSilentCallersAndGarbage) {
  Listener listener("the right key, sixteen");
  std::vector<Fd> others;
  for (const std::string garbage : {"", "GET / HTTP/1.1\r\n\r\n", "short"}) {
    Result<Fd> other = Status(Code::unavailable, "");
    while (!other.ok()) other = net::connect_once(listener.address(), Deadline::after_ms(kLongMs));
    std::string bytes = garbage;
    EXPECT_TRUE(net::send(*other, bytes).ok());
    others.push_back(*std::move(other));
  }
  const Result<Fd> wrong = call(listener.address(), "another key, of sixteen");
  EXPECT_EQ(wrong.status().code(), Code::no_permission);
  const Result<Fd> right = call(listener.address(), "the right key, sixteen");
  EXPECT_TRUE(right.ok()) << right.status().to_string();
  EXPECT_TRUE(listener.end().ok());
  EXPECT_TRUE(listener.said("a caller from 127.0.0.1 knows another WEFT_JOB_KEY"));
}

// Silent ones, and ones that go halfway through the proof.
TEST(WireMeet, TenThousandCallersKeepNobodyOut) {
  Listener listener("the right key, sixteen");
  std::vector<Fd> others(64);
  for (std::size_t k = 0; k < 10'000; ++k) {
    Result<Fd> other = Status(Code::unavailable, "");
    while (!other.ok()) other = net::connect_once(listener.address(), Deadline::after_ms(kLongMs));
    std::string half(k % 2 == 0 ? 0 : 70, 'x');
    (void)net::send(*other, half);
    others[k % others.size()] = *std::move(other);
  }
  const Result<Fd> right = call(listener.address(), "the right key, sixteen");
  EXPECT_TRUE(right.ok()) << right.status().to_string();
  EXPECT_TRUE(listener.end().ok());
  EXPECT_LE(listener.lines(), 20U) << "strangers fill the screen";
}

// Otherwise a stranger could listen there and be measured.
TEST(WireMeet, TheListeningSideProvesItselfToo) {
  const Address address = free_address();
  const Fd door = net::listen_on(address, 1).value();
  std::thread stranger([&door] {
    EXPECT_TRUE(net::wait_readable(door, Deadline::after_ms(kLongMs)).value());
    const Fd caller = net::accept_one(door).value();
    std::string greeting = "weft perf wire 3\n" + std::string(64, 'a');
    EXPECT_TRUE(net::send(caller, greeting).ok());
    std::string heard;
    EXPECT_TRUE(net::wait_readable(caller, Deadline::after_ms(kLongMs)).value());
    EXPECT_TRUE(net::receive(caller, heard).ok());
    std::string reply = "+" + std::string(32, 'b');
    EXPECT_TRUE(net::send(caller, reply).ok());
  });
  EXPECT_EQ(call(address, "the right key, sixteen").status().code(), Code::no_permission);
  stranger.join();
}

TEST(WireMeet, TheCommandSaysWhomItTriesAndKeepsTheDeadline) {
  const std::string at = free_address().to_string();
  const std::string key = "WEFT_JOB_KEY=0123456789abcdef WEFT_DEADLINE_MS=50 ";
  const Ran call = run_line(key + "{weft} perf wire --peer " + at);
  EXPECT_EQ(call.exit_status, 1);
  ASSERT_EQ(call.errors.size(), 3U);
  EXPECT_EQ(call.errors[0], "weft perf wire: connecting to " + at);
  EXPECT_TRUE(mentions({call.errors[1]}, "trying again for"));
  EXPECT_TRUE(mentions({call.errors[2]}, "timed_out: --peer " + at));
  const Ran listen = run_line(key + "{weft} perf wire --listen " + at);
  EXPECT_EQ(listen.exit_status, 1);
  EXPECT_TRUE(mentions(listen.errors, "listening on " + at));
  EXPECT_TRUE(mentions(listen.errors, "nobody came who knows the key"));
  EXPECT_TRUE(mentions(
      run_line("env -u WEFT_JOB_KEY WEFT_DEADLINE_MS=1 {weft} perf wire --listen " + at).errors,
      "on the other machine: export WEFT_JOB_KEY="));
  const Ran without = run_line("env -u WEFT_JOB_KEY {weft} perf wire --peer " + at);
  EXPECT_EQ(without.exit_status, 2);
  EXPECT_TRUE(mentions(without.errors, "WEFT_JOB_KEY is not set"));
}

TEST(WireMeet, ASilentCallerIsWaitedForUntilTheDeadline) {
  const Address at = free_address();
  const std::string key = "0123456789abcdef";
  std::atomic<bool> is_over = false;
  std::thread silent([&] {
    const Result<Fd> line = call(at, key);
    EXPECT_TRUE(line.ok()) << line.status().to_string();
    is_over.wait(false);
  });
  const Ran listen = run_line("WEFT_JOB_KEY=" + key +
                              " WEFT_DEADLINE_MS=2000 {weft} perf wire --listen " + at.to_string());
  EXPECT_EQ(listen.exit_status, 1);
  EXPECT_TRUE(mentions(listen.errors,
                       "timed_out: the other side did not tell what to measure before the deadline "
                       "(WEFT_DEADLINE_MS)"));
  is_over = true;
  is_over.notify_one();
  silent.join();
}

}  // namespace
}  // namespace weft
