// The network plugin as NCCL calls it: what the calls mean, and who else may call.
#include "tests/nccl/net.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>

#include "bindings/nccl/meeting.h"
#include "tests/base/sanitized.h"
#include "verbs/base/fd.h"

namespace weft::nccl {
namespace {

TEST(NcclNet, DevicesHaveNamesAndRates) {
  const Ends ends;
  int count = 0;
  ASSERT_EQ(net().devices(&count), abi::success);
  ASSERT_GE(count, 1);
  for (int device = 0; device < count; ++device) {
    abi::PropertiesV12 of;
    ASSERT_EQ(net().properties(device, &of), abi::success);
    EXPECT_STRNE(of.name, "");
    EXPECT_NE(of.guid, 0U);
    EXPECT_GT(of.mbit_per_s, 0);
    EXPECT_EQ(of.pointers, abi::kHostPointers);
    EXPECT_EQ(of.most_receives, 8);
    EXPECT_EQ(of.parts.count, 1);
    EXPECT_EQ(of.parts.devices[0], device);
  }
  abi::PropertiesV12 none;
  EXPECT_NE(net().properties(count, &none), abi::success);
  EXPECT_NE(last_warning().find("there is no device"), std::string::npos) << last_warning();
}

TEST(NcclNet, MessagesArriveWhereTheReceiverWantsThem) {
  Ends ends;
  Buffer from(ends.send, 3'000'000), into(ends.receive, 3'000'000);
  from.fill('a');
  for (const std::size_t bytes : {0UL, 1UL, 4096UL, 1'000'003UL, 2'999'990UL}) {
    Asked received = ask(ends, into, 10, into.size() - 10);
    Asked sent = send_soon(ends, received, from, 7, bytes);
    finish({&sent, &received});
    EXPECT_EQ(sent.sizes[0], static_cast<int>(bytes));
    EXPECT_EQ(received.sizes[0], static_cast<int>(bytes));
    EXPECT_EQ(std::memcmp(into.data() + 10, from.data() + 7, bytes), 0);
  }
  EXPECT_EQ(into.data()[9], 0);
}

TEST(NcclNet, AMessageWaitsForItsRoom) {
  Ends ends;
  Buffer from(ends.send, 100), into(ends.receive, 100);
  EXPECT_EQ(offer(ends, from, 0, 100).request, nullptr);
  Asked received = ask(ends, into, 0, 100, 5);
  EXPECT_EQ(offer(ends, from, 0, 1, 4).request, nullptr) << "its tag is not asked for";
  Asked sent = send_soon(ends, received, from, 0, 100, 5);
  finish({&sent, &received});
}

// Tags say which buffer of one multi-receive a message takes, in any order.
TEST(NcclNet, GroupsGoByTag) {
  Ends ends;
  Buffer from(ends.send, 3000), into(ends.receive, 3000);
  from.fill('b');
  for (int round = 0; round < 20; ++round) {
    std::memset(into.data(), 0, into.size());
    void* data[] = {into.data(), into.data() + 1000, into.data() + 2000};
    std::size_t bytes[] = {1000, 1000, 1000};
    int tags[] = {7, 8, 9};
    void* registrations[] = {into.registration(), into.registration(), into.registration()};
    Asked received;
    ASSERT_EQ(net().calls.receive(ends.receive, 3, data, bytes, tags, registrations, nullptr,
                                  &received.request),
              abi::success);
    Asked ninth = send_soon(ends, received, from, 0, 900, 9);
    Asked seventh = send_soon(ends, received, from, 1000, 700, 7);
    EXPECT_FALSE(test(received));
    Asked eighth = send_soon(ends, received, from, 2000, 800, 8);
    finish({&seventh, &eighth, &ninth, &received});
    EXPECT_EQ(received.sizes[0], 700);
    EXPECT_EQ(received.sizes[1], 800);
    EXPECT_EQ(received.sizes[2], 900);
    EXPECT_EQ(std::memcmp(into.data(), from.data() + 1000, 700), 0);
    EXPECT_EQ(std::memcmp(into.data() + 1000, from.data() + 2000, 800), 0);
    EXPECT_EQ(std::memcmp(into.data() + 2000, from.data(), 900), 0);
  }
}

// As many as NCCL has under way, again and again.
TEST(NcclNet, ManyAreUnderWayAtOnce) {
  constexpr std::size_t kEach = 20'000;
  constexpr std::size_t kMost = abi::kMostRequests;
  Ends ends;
  Buffer from(ends.send, kMost * kEach), into(ends.receive, kMost * kEach);
  for (int round = 0; round < 30; ++round) {
    from.fill(static_cast<char>(round));
    std::vector<Asked> received(kMost), sent(kMost);
    for (std::size_t k = 0; k < kMost; ++k) received[k] = ask(ends, into, k * kEach, kEach);
    EXPECT_EQ(ask(ends, into, 0, 1).request, nullptr) << "more than NCCL may have";
    for (std::size_t k = 0; k < kMost; ++k)
      sent[k] = send_soon(ends, received[k], from, k * kEach, kEach - k);
    std::vector<Asked*> all;
    for (std::size_t k = 0; k < kMost; ++k) {
      all.push_back(&received[k]);
      all.push_back(&sent[k]);
    }
    finish(all);
    for (std::size_t k = 0; k < kMost; ++k) {
      EXPECT_EQ(received[k].sizes[0], static_cast<int>(kEach - k));
      EXPECT_EQ(std::memcmp(into.data() + k * kEach, from.data() + k * kEach, kEach - k), 0);
    }
    if (testing::Test::HasFailure()) return;
  }
}

// A receiver computes, and calls nothing between its irecv and the end of the message at its sender.
TEST(NcclNet, AMessageEndsAtTheSenderWhileItsReceiverRests) {
  Ends ends;
  for (const std::size_t bytes : {100UL, 65'536UL, 3'000'000UL}) {
    Buffer from(ends.send, bytes), into(ends.receive, bytes);
    from.fill('d');
    Asked received = ask(ends, into, 0, bytes);
    Asked sent;
    ASSERT_TRUE(eventually([&] {
      sent = offer(ends, from, 0, bytes);
      return sent.request != nullptr || testing::Test::HasFailure();
    }));
    finish({&sent});
    EXPECT_EQ(std::memcmp(into.data(), from.data(), bytes), 0);
    finish({&received});
  }
}

// The bound is a quarter of what closing waits for a peer that does not answer.
TEST(NcclNet, AnEndIsClosedSoonWhileTheOtherRests) {
  std::vector<std::chrono::steady_clock::duration> took;
  for (int round = 0; round < 5; ++round) {
    Ends ends;
    {
      Buffer from(ends.send, 1000), into(ends.receive, 1000);
      Asked received = ask(ends, into, 0, 1000);
      Asked sent = send_soon(ends, received, from, 0, 1000);
      finish({&sent, &received});
    }
    const auto start = std::chrono::steady_clock::now();
    ends.close_send();
    took.push_back(std::chrono::steady_clock::now() - start);
  }
  std::ranges::sort(took);
  EXPECT_LT(took[2], std::chrono::milliseconds(500));
}

// The process exits with it.
TEST(NcclNet, AConnectionMayStayOpen) {
  static const Ends* const kept = new Ends;
  EXPECT_NE(kept->send, nullptr);
}

TEST(NcclNet, ConnectionsAreIndependent) {
  std::vector<std::unique_ptr<Ends>> all;
  for (int k = 0; k < 4; ++k) all.push_back(std::make_unique<Ends>());
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const auto& ends : all) {
    buffers.push_back(std::make_unique<Buffer>(ends->send, 1000));
    buffers.back()->fill(static_cast<char>(buffers.size()));
    buffers.push_back(std::make_unique<Buffer>(ends->receive, 1000));
  }
  std::vector<Asked> received;
  for (std::size_t k = 0; k < 4; ++k)
    received.push_back(ask(*all[k], *buffers[2 * k + 1], 0, 1000));
  for (const std::size_t k : {2U, 0U, 3U, 1U}) {
    Asked sent = send_soon(*all[k], received[k], *buffers[2 * k], 0, 1000);
    finish({&sent, &received[k]});
    EXPECT_EQ(std::memcmp(buffers[2 * k]->data(), buffers[2 * k + 1]->data(), 1000), 0);
  }
  buffers.clear();
}

TEST(NcclNet, MemoryIsRegisteredAgainAndAgain) {
  Ends ends;
  Buffer from(ends.send, 5000);
  from.fill('c');
  for (int round = 0; round < 50; ++round) {
    Buffer into(ends.receive, 5000);
    Asked received = ask(ends, into, 0, 5000);
    Asked sent = send_soon(ends, received, from, 0, 5000);
    finish({&sent, &received});
    EXPECT_EQ(std::memcmp(into.data(), from.data(), 5000), 0);
  }
}

void expect_refused(abi::Result result, const char* reason) {
  EXPECT_NE(result, abi::success);
  EXPECT_NE(last_warning().find(reason), std::string::npos) << last_warning();
}

TEST(NcclNetErrors, SayWhatIsWrong) {
  Ends ends;
  Buffer from(ends.send, 2000), into(ends.receive, 1000);
  void* request = nullptr;
  void* data = into.data();
  std::size_t bytes = 1001;
  int tag = 0;
  void* registration = into.registration();
  expect_refused(
      net().calls.receive(ends.receive, 1, &data, &bytes, &tag, &registration, nullptr, &request),
      "leaves its registered memory");
  registration = &bytes;
  bytes = 10;
  expect_refused(
      net().calls.receive(ends.receive, 1, &data, &bytes, &tag, &registration, nullptr, &request),
      "not registered");
  expect_refused(net().calls.send(ends.receive, data, 1, 0, nullptr, nullptr, &request),
                 "this connection receives");
  expect_refused(net().calls.register_memory(ends.send, data, 8, 2, &registration),
                 "only host memory");
  Asked received = ask(ends, into, 0, 1000);
  EXPECT_TRUE(eventually([&] {
    test(received);
    return net().calls.send(ends.send, from.data(), 1001, 0, nullptr, nullptr, &request) !=
           abi::success;
  }));
  EXPECT_NE(last_warning().find("1001 bytes with tag 0, for which the receiver has 1000"),
            std::string::npos)
      << last_warning();
  std::array<char, abi::kHandleBytes> nothing{};
  void* none = nullptr;
  expect_refused(net().connect(nullptr, 0, nothing.data(), &none, &none), "handle is not");
  expect_refused(net().listen(nullptr, 99, nothing.data(), &none), "there is no device 99");
}

TEST(NcclNetErrors, ASenderThatIsGoneIsNoticed) {
  Ends ends;
  auto from = std::make_unique<Buffer>(ends.send, 100);
  Buffer into(ends.receive, 100);
  Asked received = ask(ends, into, 0, 100);
  Asked sent = send_soon(ends, received, *from, 0, 100);
  finish({&sent, &received});
  Asked next = ask(ends, into, 0, 100);
  from.reset();
  ends.close_send();
  int done = 0;
  int size = 0;
  EXPECT_TRUE(eventually(
      [&] { return net().calls.test(next.request, &done, &size) == abi::remote_error; }));
  EXPECT_EQ(done, 0);
  EXPECT_NE(last_warning().find("the sender has closed"), std::string::npos) << last_warning();
}

TEST(NcclNetErrors, AReceiverThatIsGoneIsNoticed) {
  Ends ends;
  Buffer from(ends.send, 100);
  ends.close_receive();
  void* request = nullptr;
  EXPECT_TRUE(eventually([&] {
    return net().calls.send(ends.send, from.data(), 1, 0, nullptr, nullptr, &request) ==
           abi::remote_error;
  }));
  EXPECT_NE(last_warning().find("receiver"), std::string::npos) << last_warning();
}

// TCP does not reach them, and neither does RDMA without a GPU.
TEST(NcclNetErrors, MemoryOfAGpuIsRefusedWhereItWasNotOffered) {
  Ends ends;
  std::array<char, 64> memory{};
  for (void* const end : {ends.send, ends.receive}) {
    void* registration = nullptr;
    EXPECT_EQ(net().calls.register_memory(end, memory.data(), memory.size(), abi::kCudaPointers,
                                          &registration),
              abi::invalid_argument);
    EXPECT_NE(last_warning().find("only host memory was offered: "), std::string::npos)
        << last_warning();
    EXPECT_EQ(net().calls.register_dma_buf(end, memory.data(), memory.size(), abi::kCudaPointers, 0,
                                           0, &registration),
              abi::invalid_argument);
  }
}

// A listener, whose handle is read, and strangers at its port.
class NcclNetStrangers : public testing::Test {
 protected:
  NcclNetStrangers() {
    abi::TrafficClass traffic;
    EXPECT_EQ(net().init(&context_, 1, &traffic, keep_warning, nullptr), abi::success);
    EXPECT_EQ(net().listen(context_, 0, handle_.data(), &listener_), abi::success)
        << last_warning();
    std::memcpy(&known_, handle_.data(), sizeof known_);
  }
  ~NcclNetStrangers() override { EXPECT_EQ(net().calls.close_listener(listener_), abi::success); }

  // Connected to the listener's port at an address, or invalid.
  [[nodiscard]] Fd call(const char* host) const {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(known_.ports[0]);
    EXPECT_EQ(::inet_pton(AF_INET, host, &where.sin_addr), 1) << host;
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0)
      socket.reset();
    return socket;
  }
  [[nodiscard]] Fd call() const { return call(known_.addresses[0].data()); }
  // The listener has hung up on this one.
  [[nodiscard]] static bool is_sent_away(const Fd& stranger) {
    char byte = 0;
    const ssize_t got = ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  void* accept() {
    void *connection = nullptr, *none = nullptr;
    EXPECT_EQ(net().accept(listener_, &connection, &none), abi::success) << last_warning();
    return connection;
  }
  // The caller that NCCL sends gets in.
  void expect_connection() {
    void *send = nullptr, *receive = nullptr, *none = nullptr;
    EXPECT_TRUE(eventually([&] {
      if (send == nullptr) {
        EXPECT_EQ(net().connect(context_, 0, handle_.data(), &send, &none), abi::success)
            << last_warning();
      }
      if (receive == nullptr) receive = accept();
      return testing::Test::HasFailure() || (send != nullptr && receive != nullptr);
    }));
    ASSERT_TRUE(send != nullptr && receive != nullptr);
    EXPECT_EQ(net().calls.close_send(send), abi::success);
    EXPECT_EQ(net().calls.close_receive(receive), abi::success);
  }

  alignas(8) std::array<char, abi::kHandleBytes> handle_{};
  Handle known_;
  void* context_ = nullptr;
  void* listener_ = nullptr;
};

TEST_F(NcclNetStrangers, DoNotKeepTheCallerOut) {
  std::vector<Fd> silent, halfway;
  for (int k = 0; k < 20; ++k) {
    silent.push_back(call());
    halfway.push_back(call());
    const char* const part = k % 2 == 0 ? "WEFTNET2" : "GET / HTTP/1.0\r\n\r\n";
    EXPECT_GT(::send(halfway.back().get(), part, std::strlen(part), MSG_NOSIGNAL), 0);
  }
  EXPECT_EQ(accept(), nullptr);
  expect_connection();
}

TEST_F(NcclNetStrangers, AreFewAtATime) {
  std::vector<Fd> silent;
  for (int k = 0; k < 200; ++k) {
    silent.push_back(call());
    EXPECT_EQ(accept(), nullptr);
  }
  EXPECT_TRUE(eventually([&] { return is_sent_away(silent.front()); }));
  EXPECT_FALSE(is_sent_away(silent.back()));
  expect_connection();
}

TEST_F(NcclNetStrangers, AreSentAwayAtOnceIfTheySayWrongThings) {
  const Fd talker = call();
  const std::string nonsense(100'000, 'x');
  EXPECT_GT(::send(talker.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 0);
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(accept(), nullptr);
    return is_sent_away(talker);
  }));
  EXPECT_NE(last_warning().find("a call was refused"), std::string::npos) << last_warning();
  expect_connection();
}

// 127.0.0.2 is this machine, too, but no address of an interface.
TEST_F(NcclNetStrangers, ReachTheAddressesOfTheHandleAlone) {
  EXPECT_TRUE(call().valid());
  EXPECT_FALSE(call("127.0.0.2").valid());
}

TEST(NcclNetErrors, AForkedChildIsRefused) {
  Ends ends;
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    const bool is_refused =
        net().devices(&count) != abi::success && net().calls.close_send(ends.send) != abi::success;
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Buffer from(ends.send, 10), into(ends.receive, 10);
  Asked received = ask(ends, into, 0, 10);
  Asked sent = send_soon(ends, received, from, 0, 10);
  finish({&sent, &received});
}

// A stranger at the listener's port does not take the caller's place.
TEST(NcclNetErrors, AStrangerIsSentAway) {
  void* context = nullptr;
  abi::TrafficClass traffic;
  ASSERT_EQ(net().init(&context, 1, &traffic, keep_warning, nullptr), abi::success);
  alignas(8) std::array<char, abi::kHandleBytes> handle{}, forged{};
  void *listener = nullptr, *send = nullptr, *receive = nullptr, *none = nullptr;
  ASSERT_EQ(net().listen(context, 0, handle.data(), &listener), abi::success);
  forged = handle;
  forged[8] = static_cast<char>(forged[8] + 1);  // the cookie
  EXPECT_TRUE(eventually([&] {
    const abi::Result called = net().connect(context, 0, forged.data(), &send, &none);
    EXPECT_EQ(net().accept(listener, &receive, &none), abi::success);
    return called != abi::success;
  }));
  EXPECT_EQ(receive, nullptr);
  EXPECT_TRUE(eventually([&] {
    if (send == nullptr) {
      EXPECT_EQ(net().connect(context, 0, handle.data(), &send, &none), abi::success);
    }
    if (receive == nullptr) {
      EXPECT_EQ(net().accept(listener, &receive, &none), abi::success);
    }
    return send != nullptr && receive != nullptr;
  }));
  EXPECT_EQ(net().calls.close_send(send), abi::success);
  EXPECT_EQ(net().calls.close_receive(receive), abi::success);
  EXPECT_EQ(net().calls.close_listener(listener), abi::success);
}

}  // namespace
}  // namespace weft::nccl
