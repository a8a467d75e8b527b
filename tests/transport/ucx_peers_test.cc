// What only the ucx transport can meet: addresses of another version, devices that are not there,
// messages that break the protocol.
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "tests/base/sanitized.h"
#include "tests/transport/group.h"
#include "tests/transport/ranks.h"
#include "tests/transport/shared_buffer.h"
#include "verbs/ucx/batch.h"
#include "verbs/ucx/library.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

Result<std::unique_ptr<Interface>> nobody_known(Rank rank, const InterfaceOptions& options,
                                                const UcxOptions& ucx) {
  return open_ucx(rank, options, ucx, [](Rank peer) -> Result<std::string> {
    return Status(Code::unavailable, "nobody is known", peer);
  });
}

// Whether somebody of this machine does, at 127.0.0.1.
bool listens_at(std::uint16_t port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0;
}

void expect_error(const Status& status, Code code, const char* text) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
}

TEST(UcxPeers, ADeviceThatIsNotThereIsNamedBesideThoseThatAre) {
  in_fresh_process([] {
    const Status status = nobody_known(0, small_options(), {.device = "nix7"}).status();
    expect_error(status, Code::unavailable, "nix7");
    expect_error(status, Code::unavailable, "devices here: lo");
  });
}

// Two ports that are free, one after the other, below those that the kernel gives away.
PortRange free_ports() {
  for (int port = 21'000 + getpid() % 1'000 * 10;; port += 2) {
    const auto first = static_cast<std::uint16_t>(port);
    const auto last = static_cast<std::uint16_t>(port + 1);
    if (!listens_at(first) && !listens_at(last)) return {first, last};
  }
}

TEST(UcxPeers, ListenAtThePortsThatTheyMayUse) {
  in_fresh_process([] {
    const UcxOptions ucx{.device = "lo", .ports = free_ports()};
    std::vector<std::unique_ptr<Interface>> opened;
    for (Rank rank : {0, 1}) opened.push_back(must(nobody_known(rank, small_options(), ucx)));
    EXPECT_TRUE(listens_at(ucx.ports.first));
    EXPECT_TRUE(listens_at(ucx.ports.last));
    const Status third = nobody_known(2, small_options(), ucx).status();
    expect_error(third, Code::exhausted, "WEFT_UCX_PORTS");
    opened.pop_back();
    EXPECT_TRUE(nobody_known(2, small_options(), ucx).ok());
  });
}

TEST(UcxPeers, AddressesOfOtherVersionsAndDamagedOnesAreNamed) {
  in_fresh_process([] {
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    auto peer = must(nobody_known(1, small_options(), {.device = "lo"}));
    const auto connect_changed = [&](auto change) {
      std::string bytes = peer->address();
      ucx::Address fields;
      std::memcpy(&fields, bytes.data(), sizeof fields);
      change(fields);
      std::memcpy(bytes.data(), &fields, sizeof fields);
      return own->connect(1, bytes).status();
    };
    expect_error(connect_changed([](ucx::Address& a) { ++a.wire_version; }), Code::mismatch,
                 "wire version");
    expect_error(connect_changed([](ucx::Address& a) { ++a.magic; }), Code::mismatch, "is none");
    expect_error(connect_changed([](ucx::Address& a) { ++a.nonce; }), Code::mismatch, "damaged");
    EXPECT_TRUE(connect_changed([](ucx::Address&) {}).ok());
  });
}

TEST(UcxPeers, PiecesOfAnotherSizeAreNamed) {
  in_fresh_process([] {
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    auto peer = must(
        nobody_known(1, small_options(), {.device = "lo", .piece_bytes = std::size_t{1} << 16}));
    expect_error(own->connect(1, peer->address()).status(), Code::mismatch, "bytes per piece");
  });
}

// A batch of two notices, of 5 and of 16 bytes.
std::vector<std::byte> batch_of_two() {
  std::vector<std::byte> batch;
  for (const std::size_t bytes : {5, 16}) {
    ucx::NoticeMessage notice;
    notice.message.number = bytes;
    const std::size_t begin = batch.size();
    batch.resize(begin + ucx::part_bytes(sizeof notice, bytes));
    std::byte* header = ucx::write_part(&batch[begin], sizeof notice, numbered_payload(0, bytes));
    std::memcpy(header, &notice, sizeof notice);
  }
  return batch;
}

// How many messages are read of it, and whether the reader then says that it is broken.
std::pair<int, bool> read_batch(std::span<const std::byte> batch) {
  ucx::BatchReader reader(batch);
  int count = 0;
  while (const auto entry = reader.next()) {
    EXPECT_GE(entry->payload.data(), batch.data());
    EXPECT_LE(entry->payload.data() + entry->payload.size(), batch.data() + batch.size());
    ++count;
  }
  return {count, reader.broken()};
}

TEST(UcxPeers, ABatchIsReadAsItWasWritten) {
  const std::vector<std::byte> batch = batch_of_two();
  EXPECT_EQ(batch.size() % 8, 0u);
  ucx::BatchReader reader(batch);
  for (const std::size_t bytes : {5, 16}) {
    const auto entry = reader.next();
    ASSERT_TRUE(entry);
    ucx::NoticeMessage notice;
    ASSERT_EQ(entry->header.size(), sizeof notice);
    std::memcpy(&notice, entry->header.data(), sizeof notice);
    EXPECT_EQ(notice.message.number, bytes);
    const std::vector<std::byte> payload = numbered_payload(0, bytes);
    EXPECT_TRUE(std::ranges::equal(entry->payload, payload));
  }
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.broken());
}

TEST(UcxPeers, ABatchThatIsCutIsRefusedFromThere) {
  const std::vector<std::byte> whole = batch_of_two();
  const std::size_t first = ucx::part_bytes(sizeof(ucx::NoticeMessage), 5);
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    if (bytes == first) continue;  // that is a batch of one
    const std::vector<std::byte> cut(whole.begin(),
                                     whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ(read_batch(cut), std::pair(bytes > first ? 1 : 0, true)) << bytes;
  }
}

TEST(UcxPeers, APartThatIsOverlongOrTravelsAloneIsRefused) {
  const std::size_t kind_at = sizeof(ucx::Part) + offsetof(ucx::Message, kind);
  for (int kind = 0; kind < 256; ++kind) {
    std::vector<std::byte> batch = batch_of_two();
    batch[kind_at] = static_cast<std::byte>(kind);
    const bool is_known = ucx::header_bytes_of(static_cast<ucx::MessageKind>(kind)) != 0;
    const bool good = is_known && kind != static_cast<int>(ucx::MessageKind::hello) &&
                      kind != static_cast<int>(ucx::MessageKind::goodbye);
    EXPECT_EQ(read_batch(batch), std::pair(good ? 2 : 0, !good)) << kind;
  }
  for (const std::uint32_t bytes : {0U, 47U, 111U, 1000U, 0x7fff'ffffU, 0xffff'fff8U, ~0U}) {
    std::vector<std::byte> batch = batch_of_two();
    std::memcpy(batch.data(), &bytes, sizeof bytes);
    EXPECT_EQ(read_batch(batch), std::pair(0, true)) << bytes;
  }
}

// A rank that connects to rank 0 and takes turns when it is asked to, until it is killed.
struct Steps {
  std::atomic<int> asked;
  std::atomic<int> done;
};

// Those of several processes: the children that are forked after this share them.
auto shared_steps(std::size_t count) {
  const std::size_t bytes = count * sizeof(Steps);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const auto unmap = [bytes](Steps* all) { munmap(all, bytes); };
  return std::unique_ptr<Steps[], decltype(unmap)>(static_cast<Steps*>(memory), unmap);
}

[[noreturn]] void connect_step_by_step(Board& board, Steps& steps) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto own = must(nobody_known(1, small_options(), {.device = "lo"}));
  Endpoint* const owner = must(own->connect(0, board.get(0)));
  (void)owner->post_notice(kControlChannel, numbered_header(0), {});
  for (int taken = 0;;) {
    if (steps.asked == taken) {
      std::this_thread::yield();
      continue;
    }
    for (int turn = 0; turn < 50; ++turn) own->progress();
    steps.done = ++taken;
  }
}

void take_step(Steps& steps) {
  const int number = ++steps.asked;
  while (steps.done != number) std::this_thread::yield();
}

// After each number of steps. UCX 1.13 ends the process that answers a peer's first question when the
// peer is dead by then.
TEST(UcxPeers, ThatDieWhileTheyConnectEndNobodyElse) {
  constexpr int kDeaths = 8;
  const auto steps = shared_steps(kDeaths);
  SharedBoard board;
  in_fresh_process([&] {
    std::array<pid_t, kDeaths> peers{};
    for (std::size_t each = 0; each < kDeaths; ++each) {
      peers[each] = fork();
      if (peers[each] == 0) connect_step_by_step(*board, steps[each]);
    }
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    board->put(0, own->address());
    for (std::size_t each = 0; each < kDeaths; ++each) {
      take_step(steps[each]);
      for (std::size_t step = 0; step < each; ++step) {
        for (int turn = 0; turn < 50; ++turn) own->progress();
        take_step(steps[each]);
      }
      kill(peers[each], SIGKILL);
      waitpid(peers[each], nullptr, 0);
      for (int turn = 0; turn < 200; ++turn) own->progress();
    }
  });
}

// More than the socket takes, so UCX is in the middle of it.
constexpr std::size_t kLongPiece = std::size_t{16} << 20;

// Both ends of a path between ranks 0 and 1 work.
void meet(Interface& own, Endpoint& peer) {
  (void)peer.post_notice(1, numbered_header(0), {});
  EXPECT_TRUE(eventually(own, [&] { return peer.front(1).header != nullptr; }));
  EXPECT_TRUE(eventually(own, [&] { return peer.released(1) == 1 || own.flushed(); }));
}

[[noreturn]] void leave_much_under_way(Board& board, Steps& steps) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto own = must(nobody_known(1, small_options(), {.device = "lo", .piece_bytes = kLongPiece}));
  board.put(1, own->address());
  Endpoint* const peer = must(own->connect(0, board.get(0)));
  meet(*own, *peer);
  while (steps.asked == 0) own->progress();
  const std::vector<std::byte> piece(kLongPiece);
  (void)peer->post_piece(1, numbered_header(1), piece);
  steps.done = 1;
  while (true) pause();
}

// Keeps back the second hello of a rank, with which UCX asks for its connection, and counts what else
// than hellos is given to UCX.
struct LateQuestion {
  inline static int rank = 1;
  inline static decltype(ucx::Library::am_send) send = nullptr;
  inline static decltype(ucx::Library::request_free) let_go = nullptr;
  inline static ucp_ep_h endpoint = nullptr;
  inline static unsigned message = 0;
  inline static ucx::Message hello;
  inline static std::vector<std::byte> address;
  inline static bool has_other_asked = false;
  inline static int others = 0;

  static ucs_status_ptr_t send_others(ucp_ep_h to, unsigned id, const void* header,
                                      std::size_t header_bytes, const void* data, std::size_t bytes,
                                      const ucp_request_param_t* how) {
    ucx::Message given;
    if (header_bytes >= sizeof given) std::memcpy(&given, header, sizeof given);
    if (given.kind != ucx::MessageKind::hello) ++others;
    const bool asks = given.kind == ucx::MessageKind::hello && given.number != 0;
    has_other_asked |= asks && given.rank != rank;
    if (!asks || given.rank != rank || endpoint != nullptr)
      return send(to, id, header, header_bytes, data, bytes, how);
    endpoint = to;
    message = id;
    hello = given;
    const auto* from = static_cast<const std::byte*>(data);
    address.assign(from, from + bytes);
    return nullptr;  // UCX has sent it
  }
  static void ask() {
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    ucs_status_ptr_t sent =
        send(endpoint, message, &hello, sizeof hello, address.data(), address.size(), &how);
    if (UCS_PTR_IS_PTR(sent)) let_go(sent);
  }
};

// False with a UCX whose answers are harmless: nobody asks.
bool let_ask_late(int rank) {
  auto* const table = const_cast<ucx::Library*>(must(ucx::library()));
  unsigned major = 0, minor = 0, release = 0;
  table->get_version(&major, &minor, &release);
  if (major > 1 || minor >= 16) return false;
  LateQuestion::rank = rank;
  LateQuestion::send = std::exchange(table->am_send, LateQuestion::send_others);
  LateQuestion::let_go = table->request_free;
  return true;
}

// Two ranks that connect, of which rank 1 is late to ask.
template <typename Run>
void with_a_late_question(Run run) {
  in_fresh_process([&] {
    if (!let_ask_late(1)) return;
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    auto other = must(nobody_known(1, small_options(), {.device = "lo"}));
    run(*own, *other);
    const std::jthread closing([&] { other->close(); });  // each waits for the other
    own->close();
  });
}

template <typename Done>
bool eventually_both(Interface& own, Interface& other, Done done) {
  return eventually(own, [&] {
    other.progress();
    return done();
  });
}

// What fills the socket would be in the way of the answer to the question of the peer.
TEST(UcxPeers, GetNothingButHellosBeforeTheyHaveAsked) {
  with_a_late_question([](Interface& own, Interface& other) {
    Endpoint* const to = must(own.connect(1, other.address()));
    Endpoint* const back = must(other.connect(0, own.address()));
    const std::vector<std::byte> piece = numbered_payload(1, std::size_t{100} << 10);
    const std::vector<std::byte> written = numbered_payload(2, std::size_t{100} << 10);
    SharedBuffer there(written.size());
    EXPECT_EQ(to->post_notice(1, numbered_header(0), {}), Posted::posted);
    EXPECT_EQ(to->post_piece(1, numbered_header(1), piece), Posted::posted);
    EXPECT_EQ(to->post_write(written, describe_memory(there.bytes().data(), written.size()), 1),
              Posted::posted);
    EXPECT_EQ(to->post_notice(1, numbered_header(2), {}), Posted::posted);
    ASSERT_TRUE(eventually_both(own, other, [&] {
      return LateQuestion::endpoint != nullptr && LateQuestion::has_other_asked;
    }));
    for (int turn = 0; turn < 100; ++turn) eventually_both(own, other, [] { return true; });
    EXPECT_EQ(LateQuestion::others, 0);
    EXPECT_FALSE(own.flushed());
    LateQuestion::ask();
    for (std::uint32_t n = 0; n < 3; ++n) {
      ASSERT_TRUE(eventually_both(own, other, [&] { return back->front(1).header != nullptr; }));
      EXPECT_TRUE(is_number(back->front(1), n, n == 1 ? piece.size() : 0));
      back->release(1);
    }
    std::array<Completion, 1> ended;
    ASSERT_TRUE(eventually_both(own, other, [&] { return own.poll(ended) == 1; }));
    EXPECT_TRUE(ended[0].status.ok()) << ended[0].status.to_string();
    EXPECT_TRUE(std::ranges::equal(there.bytes(), written));
  });
}

// The question of the endpoint before is as good, since the connection is the same.
TEST(UcxPeers, ThatAskWhileTheirPathIsGivenUpAreHeard) {
  with_a_late_question([](Interface& own, Interface& other) {
    Endpoint* to = must(own.connect(1, other.address()));
    Endpoint* back = must(other.connect(0, own.address()));
    ASSERT_TRUE(eventually_both(own, other, [&] {
      return LateQuestion::endpoint != nullptr && LateQuestion::has_other_asked;
    }));
    to->abandon(Status(Code::unavailable, "a cable was pulled"));
    back->abandon(Status(Code::unavailable, "a cable was pulled"));
    to = must(own.reconnect(1, other.address()));
    back = must(other.reconnect(0, own.address()));
    (void)to->post_notice(1, numbered_header(0), {});
    (void)back->post_notice(1, numbered_header(0), {});
    LateQuestion::ask();
    EXPECT_TRUE(eventually_both(own, other, [&] {
      return to->front(1).header != nullptr && back->front(1).header != nullptr;
    }));
  });
}

[[noreturn]] void ask_when_told(Board& board, Steps& steps) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  let_ask_late(1);
  auto own = must(nobody_known(1, small_options(), {.device = "lo"}));
  board.put(1, own->address());
  (void)must(own->connect(0, board.get(0)));
  while (LateQuestion::endpoint == nullptr) own->progress();
  steps.done = 1;
  while (steps.asked != 2) std::this_thread::yield();
  LateQuestion::ask();
  steps.done = 2;
  while (true) pause();
}

// Lets that peer ask and die as soon as an interface closes a connection, or is about to end.
struct LastMoment {
  inline static decltype(ucx::Library::ep_close) close = nullptr;
  inline static decltype(ucx::Library::worker_flush) flush = nullptr;
  inline static Steps* steps = nullptr;
  inline static pid_t peer = 0;

  static void come() {
    if (peer == 0) return;
    steps->asked = 2;
    while (steps->done != 2) std::this_thread::yield();
    kill(peer, SIGKILL);
    waitpid(std::exchange(peer, 0), nullptr, 0);
  }
  static ucs_status_ptr_t close_then(ucp_ep_h endpoint, const ucp_request_param_t* how) {
    const ucs_status_ptr_t closed = close(endpoint, how);
    come();
    return closed;
  }
  static ucs_status_ptr_t flush_then(ucp_worker_h worker, const ucp_request_param_t* how) {
    come();
    return flush(worker, how);
  }
};

TEST(UcxPeers, ThatAskAndDieWhileAnInterfaceEndsDoNotEndItsProcess) {
  const auto steps = shared_steps(1);
  LastMoment::steps = steps.get();
  SharedBoard board;
  in_fresh_process([&] {
    const pid_t child = fork();
    if (child == 0) ask_when_told(*board, *LastMoment::steps);
    if (!let_ask_late(0)) return;
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    board->put(0, own->address());
    Endpoint* const peer = must(own->connect(1, board->get(1)));
    ASSERT_TRUE(eventually(
        *own, [] { return LateQuestion::endpoint != nullptr && LastMoment::steps->done == 1; }));
    peer->abandon(Status(Code::unavailable, "a cable was pulled"));
    auto* const table = const_cast<ucx::Library*>(must(ucx::library()));
    LastMoment::close = std::exchange(table->ep_close, LastMoment::close_then);
    LastMoment::flush = std::exchange(table->worker_flush, LastMoment::flush_then);
    LastMoment::peer = child;
    own.reset();
    EXPECT_EQ(LastMoment::peer, 0);
  });
}

// What the peer has sent is still to be read when its death shows, so that it shows first where we
// send. Every version of UCX ends its process there if it sends without a copy.
TEST(UcxPeers, ThatDieWhileMuchIsUnderWayEndNobodyElse) {
  const auto steps = shared_steps(1);
  SharedBoard board;
  in_fresh_process([&] {
    const pid_t child = fork();
    if (child == 0) leave_much_under_way(*board, steps[0]);
    auto own = must(nobody_known(0, small_options(), {.device = "lo", .piece_bytes = kLongPiece}));
    board->put(0, own->address());
    Endpoint* const peer = must(own->connect(1, board->get(1)));
    meet(*own, *peer);
    steps[0].asked = 1;
    while (steps[0].done != 1) std::this_thread::yield();
    const std::vector<std::byte> piece(kLongPiece);
    EXPECT_EQ(peer->post_piece(1, numbered_header(1), piece), Posted::posted);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(eventually(*own, [&] { return !peer->failure().ok(); }));
  });
}

// A pulled cable stops the path in the middle of such work, and must not cost the connection.
TEST(UcxPeers, APathThatIsGivenUpAmidOneSidedWorkComesBack) {
  in_fresh_process([] {
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    auto other = must(nobody_known(1, small_options(), {.device = "lo"}));
    Endpoint* to = must(own->connect(1, other->address()));
    Endpoint* back = must(other->connect(0, own->address()));
    const auto meet = [&] {
      (void)to->post_notice(1, numbered_header(0), {});
      (void)back->post_notice(1, numbered_header(0), {});
      return eventually([&] {
        own->progress();
        other->progress();
        return to->front(1).header != nullptr && back->front(1).header != nullptr;
      });
    };
    ASSERT_TRUE(meet());
    constexpr std::size_t kBytes = std::size_t{256} << 10;
    constexpr int kWorks = 64;  // more than the sockets take
    SharedBuffer there(kBytes);
    {
      const std::vector<std::byte> here(kBytes);
      for (int work = 0; work < kWorks; ++work)
        ASSERT_EQ(to->post_write(here, describe_memory(there.bytes().data(), kBytes), 1),
                  Posted::posted);
      to->abandon(Status(Code::unavailable, "a cable was pulled"));
      std::array<Completion, kWorks> ended;
      EXPECT_EQ(own->poll(ended), std::size_t{kWorks});
    }
    to = must(own->reconnect(1, other->address()));
    back->abandon(Status(Code::unavailable, "a cable was pulled"));
    back = must(other->reconnect(0, own->address()));
    EXPECT_TRUE(meet());
  });
}

// Sends a message that is alone in its active message as often as a crowd would, from a new interface
// each time.
struct Crowd {
  static constexpr std::uint64_t kSize = 20'000;
  static constexpr std::uint64_t kCrowds = 2;
  inline static decltype(ucx::Library::am_send) send = nullptr;
  inline static decltype(ucx::Library::request_free) let_go = nullptr;
  inline static std::uint64_t next = 1;
  inline static bool is_called = false;

  static ucs_status_ptr_t send_as_all(ucp_ep_h endpoint, unsigned id, const void* header,
                                      std::size_t header_bytes, const void* data, std::size_t bytes,
                                      const ucp_request_param_t* how) {
    if (is_called && header_bytes != 0) {
      is_called = false;
      // UCX may send them later, and reads them then. There is room for all crowds from the first on.
      static std::vector<ucx::Message> messages(kCrowds * kSize);
      for (std::uint64_t k = 0; k < kSize; ++k, ++next) {
        ucx::Message& message = messages.at(next - 1);
        std::memcpy(&message, header, sizeof message);
        message.kind = ucx::MessageKind::credit;
        message.from = next;
        const ucp_request_param_t plain{};
        ucs_status_ptr_t sent = send(endpoint, id, &message, sizeof message, nullptr, 0, &plain);
        if (UCS_PTR_IS_PTR(sent)) let_go(sent);
      }
    }
    return send(endpoint, id, header, header_bytes, data, bytes, how);
  }
};

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6));
  return 0;
}

// Who knows the number of an interface may speak to it under any name. What that costs has an end, and
// a peer to which the interface is connected is heard all the same.
TEST(UcxPeers, ACrowdOfStrangersCostsABoundedAmount) {
  in_fresh_process([] {
    auto* const table = const_cast<ucx::Library*>(must(ucx::library()));
    Crowd::send = std::exchange(table->am_send, Crowd::send_as_all);
    Crowd::let_go = table->request_free;
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    std::vector<std::unique_ptr<Interface>> others;
    const auto meet = [&](Rank rank, bool in_a_crowd) {
      auto& other =
          others.emplace_back(must(nobody_known(rank, small_options(), {.device = "lo"})));
      Endpoint* const from = must(own->connect(rank, other->address()));
      Crowd::is_called = in_a_crowd;  // by what `other` says to `own`
      Endpoint* const to = must(other->connect(0, own->address()));
      EXPECT_FALSE(Crowd::is_called);
      EXPECT_EQ(to->post_notice(1, numbered_header(7), {}), Posted::posted);
      EXPECT_TRUE(eventually([&] {
        other->progress();
        own->progress();
        return from->front(1).header != nullptr;
      }));
    };
    meet(1, true);
    const std::size_t before = resident_kib();
    meet(2, true);
    meet(3, false);
    EXPECT_EQ(Crowd::next, 1 + Crowd::kCrowds * Crowd::kSize);
    if (!kIsSanitized) {
      EXPECT_LT(resident_kib(), before + 16'384);
    }
  });
}

TEST(UcxPeers, TheLoopbackDeviceHasALink) {
  in_fresh_process([] {
    auto own = must(nobody_known(0, small_options(), {.device = "lo"}));
    EXPECT_TRUE(own->link().ok()) << own->link().to_string();
  });
}

}  // namespace
}  // namespace weft
