// Many strangers, and strangers that say half of something, at a rendezvous. What they cost has a bound,
// and the ranks of the job get in beside them.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <fstream>

#include "engine/bootstrap/tcp_store.h"
#include "engine/net/net.h"
#include "tests/base/sanitized.h"
#include "tests/bootstrap/stores.h"
#include "tests/memory/fresh_process.h"

namespace weft::testing {
namespace {

Fd knock(const RendezvousServer& server) {
  return net::connect_once(server.address(), patient()).value();
}

void say(const Fd& socket, std::string_view bytes) {
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// Whether the server closes the connection; whatever it says before is read.
bool is_closed(const Fd& socket) {
  std::string heard;
  for (;;) {
    const auto flow = net::receive(socket, heard);
    if (!flow.ok() || *flow == net::Flow::ended) return true;
    if (*flow == net::Flow::more) continue;
    const auto readable = net::wait_readable(socket, patient());
    if (!readable.ok() || !*readable) return false;
  }
}

// Both ranks of the job come together.
void expect_job(const RendezvousServer& server) {
  const auto inside = join(server, 0, 2);
  const auto other = join(server, 1, 2);
  ASSERT_TRUE(inside != nullptr && other != nullptr);
  std::thread fence([&] { EXPECT_TRUE(other->fence(patient()).ok()); });
  EXPECT_TRUE(inside->fence(patient()).ok());
  fence.join();
  EXPECT_TRUE(inside->goodbye(patient()).ok() && other->goodbye(patient()).ok());
}

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
  return 0;
}

const std::string kHello = wire::encode_hello({1, 2, false, {}, {}});

TEST(Strangers, ThatSayHalfOfAFrameAreClosedInTime) {
  RendezvousOptions options = server_options(2);
  options.handshake_ms = 200;
  const auto server = RendezvousServer::start(options).value();
  for (const std::size_t part : {std::size_t{1}, std::size_t{3}, wire::kHeaderBytes - 1,
                                 wire::kHeaderBytes, kHello.size() - 1}) {
    const Fd halfway = knock(*server);
    say(halfway, std::string_view(kHello).substr(0, part));
    EXPECT_TRUE(is_closed(halfway)) << part << " bytes";
  }
  // A byte now and then gives nobody more time.
  const Fd slow = knock(*server);
  const Deadline deadline = patient();
  for (std::size_t at = 0; !deadline.passed() && at < kHello.size() - 1; ++at) {
    if (::send(slow.get(), &kHello[at], 1, MSG_NOSIGNAL) != 1) break;
    const auto readable = net::wait_readable(slow, Deadline::after_ms(20));
    std::string heard;
    if (readable.ok() && *readable && *net::receive(slow, heard) == net::Flow::ended) break;
    ASSERT_LT(at, 50U) << "a stranger is listened to for a second";
  }
  expect_job(*server);
}

// Ten thousand callers, each silent or halfway through its hello when it is replaced, while the job
// comes and goes. What the server keeps of them is no more than for the first hundred.
TEST(Strangers, TenThousandCostNoMoreThanAHundred) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  std::vector<Fd> calls(256);
  const auto knock_often = [&](std::size_t times) {
    for (std::size_t k = 0; k < times; ++k) {
      Fd& call = calls[k % calls.size()];
      call = knock(*server);
      // The server may have hung up on it already.
      if (k % 2 == 1) (void)::send(call.get(), kHello.data(), kHello.size() - 1, MSG_NOSIGNAL);
    }
  };
  knock_often(1000);
  expect_job(*server);
  const std::size_t before = resident_kib();
  std::atomic<bool> is_over = false;
  std::thread jobs([&] {
    while (!is_over) expect_job(*server);
  });
  knock_often(10'000);
  is_over = true;
  jobs.join();
  if (!kIsSanitized) {
    EXPECT_LT(resident_kib(), before + 4096);
  }
}

// A server in a process of its own, which may have few descriptors open. Silent callers would take all
// of them. They are hung up on instead, so that ranks get in at once.
TEST(Strangers, ThatTakeAllDescriptorsKeepNobodyOut) {
  std::array<int, 2> told{}, over{};
  ASSERT_TRUE(::pipe(told.data()) == 0 && ::pipe(over.data()) == 0);
  FreshProcess host([&] {
    const Fd next(::dup(0));  // the lowest descriptor that is free
    rlimit few{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &few), 0);
    few.rlim_cur = static_cast<rlim_t>(next.get()) + 30;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto server = RendezvousServer::start(server_options(2)).value();
    const std::uint16_t port = server->address().port;
    ASSERT_EQ(::write(told[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    char end = 0;
    (void)!::read(over[0], &end, 1);
  });
  ::close(told[1]);  // so that the read ends if the server does
  std::uint16_t port = 0;
  ASSERT_EQ(::read(told[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  const Address address{"127.0.0.1", port};
  std::vector<Fd> silent;
  for (int k = 0; k < 200; ++k) silent.push_back(net::connect_once(address, patient()).value());
  const std::int64_t begin = now_ns();
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto store = connect_store({address, rank, 2, kKey, 30'000}, patient());
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    EXPECT_TRUE((*store)->put("key", "value").ok());
  }
  EXPECT_LT(now_ns() - begin, 5'000'000'000) << "that is half of a stranger's patience";
  EXPECT_EQ(::write(over[1], "x", 1), 1);
  report(host.join(), "the server");
  for (const int end : {told[0], over[0], over[1]}) ::close(end);
}

// Whoever sits at the address of the rendezvous, and says this and no more.
Status meet_impostor(const std::string& words) {
  const Fd listener = net::listen_on({"127.0.0.1", 0}, 1).value();
  const Address address{"127.0.0.1", net::port_of(listener).value()};
  std::atomic<bool> is_over = false;
  std::thread impostor([&] {
    ASSERT_TRUE(net::wait_readable(listener, patient()).value());
    const Fd socket = net::accept_one(listener).value();
    std::string bytes = words;
    while (!is_over) {
      if (!net::send(socket, bytes).ok()) break;
      is_over.wait(false);
    }
  });
  const std::int64_t begin = now_ns();
  const Status status =
      connect_store({address, 1, 2, kKey, 1000}, Deadline::after_ms(300)).status();
  EXPECT_LT(now_ns() - begin, 20'000'000'000) << "the deadline was 300 ms";
  is_over = true;
  is_over.notify_one();
  impostor.join();
  EXPECT_TRUE(contains(status.text(), address.to_string())) << status.to_string();
  return status;
}

TEST(Impostors, ThatAreSilentOrStopHalfwayAreAnErrorAtTheDeadline) {
  const std::string challenge = wire::encode_challenge({});
  for (const std::string& words :
       {std::string(), challenge.substr(0, 5), challenge.substr(0, 20), challenge,
        challenge + wire::encode_welcome({kNoRank, 0, {}}).substr(0, 30)}) {
    const Status status = meet_impostor(words);
    EXPECT_EQ(status.code(), Code::timed_out) << words.size() << ": " << status.to_string();
  }
}

TEST(Impostors, ThatSayMoreThanAServerSaysAreRefusedUnread) {
  std::string endless = wire::encode_challenge({});
  endless.resize(std::size_t{1} << 20, 'x');
  EXPECT_EQ(meet_impostor(endless).code(), Code::mismatch);
  std::string oversized = wire::encode_challenge({}).substr(0, wire::kHeaderBytes);
  oversized[11] = '\x7f';  // 2 GiB
  EXPECT_EQ(meet_impostor(oversized).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace weft::testing
