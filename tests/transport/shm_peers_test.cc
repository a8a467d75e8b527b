// What only shared memory between processes can meet: peers that ended, pids that are someone
// else's now, another user's processes, a kernel that refuses.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/transport/ranks.h"
#include "tests/transport/shared_buffer.h"
#include "verbs/shm/layout.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

const TransportFactory kShm{"shm", open_shm};
constexpr uid_t kNobody = 65'534;

shm::Address decoded(const std::string& address) {
  shm::Address fields;
  EXPECT_EQ(address.size(), sizeof fields);
  std::memcpy(&fields, address.data(), sizeof fields);
  return fields;
}

// The error of connecting to rank 1's address after `change`.
template <typename Change>
Status connect_changed(RankProcess& rank, Board& board, Change change) {
  shm::Address fields = decoded(board.get(1));
  change(fields);
  std::string bytes(sizeof fields, '\0');
  std::memcpy(bytes.data(), &fields, sizeof fields);
  return rank.interface().connect(1, bytes).status();
}

void expect_error(const Status& status, Code code, const char* text) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
}

// Starts rank 1, which waits at the board's first meeting, and runs `body` as rank 0.
void beside_rank_1(
    const std::function<void(RankProcess&, Board&)>& body,
    const std::function<void()>& before_1 = [] {}) {
  const SharedBoard board;
  FreshProcess one([&] {
    before_1();
    RankProcess rank(kShm, 1, 2, *board, small_options());
    rank.meet();
  });
  FreshProcess zero([&] {
    (void)board->get(1);
    {
      RankProcess rank(kShm, 0, 2, *board, small_options());
      body(rank, *board);
    }
    board->meet(2, 1);
  });
  report(zero.join(), "rank 0");
  report(one.join(), "rank 1");
}

TEST(ShmPeers, AddressesOfOtherVersionsAndMachinesAreNamed) {
  beside_rank_1([](RankProcess& rank, Board& board) {
    expect_error(connect_changed(rank, board, [](shm::Address& a) { ++a.wire_version; }),
                 Code::mismatch, "wire version");
    expect_error(connect_changed(rank, board, [](shm::Address& a) { ++a.machine; }),
                 Code::unavailable, "another machine");
    EXPECT_TRUE(connect_changed(rank, board, [](shm::Address&) {}).ok());
  });
}

TEST(ShmPeers, APidOfAnotherLifeIsNotThePeer) {
  beside_rank_1([](RankProcess& rank, Board& board) {
    expect_error(connect_changed(rank, board, [](shm::Address& a) { ++a.heap.nonce; }),
                 Code::peer_died, "not the one");
    expect_error(connect_changed(rank, board, [](shm::Address& a) { a.heap.process = getpid(); }),
                 Code::peer_died, "not the one");
    // A descriptor of that process which is no heap: standard input.
    EXPECT_FALSE(connect_changed(rank, board, [](shm::Address& a) { a.heap.file = 0; }).ok());
  });
}

TEST(ShmPeers, LyingSizesAndOffsetsNeverFault) {
  beside_rank_1([](RankProcess& rank, Board& board) {
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2} << 20, std::uint64_t{1} << 62,
          ~std::uint64_t{0}, ~std::uint64_t{0} << 21,
          ~std::uint64_t{0} - (std::uint64_t{2} << 20) + 4097}) {
      expect_error(connect_changed(rank, board, [&](shm::Address& a) { a.heap.bytes = bytes; }),
                   Code::peer_died, "not the one");
    }
    for (const std::uint64_t block :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{65}, std::uint64_t{1} << 40,
          ~std::uint64_t{0}, ~std::uint64_t{63}}) {
      expect_error(connect_changed(rank, board, [&](shm::Address& a) { a.block = block; }),
                   Code::mismatch, "not its shared memory");
    }
    expect_error(connect_changed(rank, board, [](shm::Address& a) { a.block += 4096; }),
                 Code::mismatch, "not its shared memory");
  });
}

TEST(ShmPeers, AnEarlierOrLaterInterfaceInTheSamePlaceIsNotThePeer) {
  beside_rank_1([](RankProcess& rank, Board& board) {
    expect_error(
        connect_changed(rank, board, [](shm::Address& a) { a.block += std::uint64_t{1} << 48; }),
        Code::peer_left, "rank 1 has left");
  });
}

// What an interface leaves serves the next one, but not while a peer may still look there.
TEST(ShmPeers, HallsAreUsedAgainOnceEverybodyHasLeft) {
  in_fresh_process([] {
    const auto open = [](Rank rank) {
      return open_shm(rank, small_options(), [](Rank) { return Status(Code::closed, "no"); })
          .value();
    };
    const auto hall_of = [](const Interface& interface) {
      return decoded(interface.address()).block;
    };
    std::unique_ptr<Interface> peer = open(1);
    std::unique_ptr<Interface> first = open(0);
    const std::uint64_t before = hall_of(*first);
    const std::string address = first->address();
    ASSERT_TRUE(peer->connect(0, address).ok());
    first.reset();
    first = open(0);
    EXPECT_NE(hall_of(*first) % (std::uint64_t{1} << 48), before) << "the peer is still there";
    peer.reset();
    const std::unique_ptr<Interface> second = open(0);
    EXPECT_EQ(hall_of(*second), before + (std::uint64_t{1} << 48));
    peer = open(1);
    expect_error(peer->connect(0, address).status(), Code::peer_left, "rank 0 has left");
  });
}

TEST(ShmPeers, TheProcessBehindAnAddressIsKnown) {
  beside_rank_1([](RankProcess& rank, Board& board) {
    EXPECT_TRUE(must(shm_heap(rank.interface().address()))->is_own());
    const std::shared_ptr<const PeerHeap> other = must(shm_heap(board.get(1)));
    EXPECT_EQ(other->process(), decoded(board.get(1)).heap.process);
    EXPECT_TRUE(other->life().valid());
    EXPECT_EQ(shm_heap("short").status().code(), Code::mismatch);
  });
}

void connect_to_dead(bool reap) {
  const SharedBoard board;
  FreshProcess one([&] {
    RankProcess rank(kShm, 1, 2, *board, small_options());
    rank.meet();
  });
  (void)board->get(1);
  one.kill();
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(one.pid()), &info, WEXITED | (reap ? 0 : WNOWAIT)), 0);
  in_fresh_process([&] {
    RankProcess rank(kShm, 0, 2, *board, small_options());
    expect_error(rank.interface().connect(1, board->get(1)).status(), Code::peer_died, "has ended");
  });
}

TEST(ShmPeers, AProcessThatEndedIsDead) {
  connect_to_dead(true);
}
TEST(ShmPeers, AZombieIsDead) {
  connect_to_dead(false);
}

TEST(ShmPeers, APeerThatDiesLaterIsAFailedCompletionForItsPrivateMemory) {
  const SharedBoard board;
  const SharedBoard done;
  FreshProcess one([&] {
    RankProcess rank(kShm, 1, 2, *board, small_options());
    rank.meet();
  });
  FreshProcess zero([&] {
    RankProcess rank(kShm, 0, 2, *board, small_options());
    Endpoint& peer = rank.link(1);
    done->put(0, "connected");
    (void)done->get(1);
    std::vector<std::byte> local(8);
    ASSERT_EQ(
        peer.post_read(local,
                       {PieceForm::process, reinterpret_cast<std::uintptr_t>(local.data()), 8}, 1),
        Posted::posted);
    const Status status = wait_completion(rank.interface()).status;
    EXPECT_EQ(status.code(), Code::peer_died) << status.to_string();
    EXPECT_EQ(status.rank(), 1);
    // Its heap stays readable for as long as it is mapped here.
    EXPECT_NE(peer.view({PieceForm::view, 0, 8}), nullptr);
    EXPECT_EQ(peer.post_notice(1, numbered_header(0), {}), Posted::posted);
  });
  (void)done->get(0);
  one.kill();
  ASSERT_EQ(waitpid(one.pid(), nullptr, 0), one.pid());
  done->put(1, "dead");
  report(zero.join(), "rank 0");
}

void become_nobody() {
  ASSERT_EQ(setgid(kNobody), 0);
  ASSERT_EQ(setuid(kNobody), 0);
}

TEST(ShmPeers, AnotherUsersProcessIsOutOfReach) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  beside_rank_1([](RankProcess& rank, Board& board) {
    become_nobody();
    const Status status = rank.interface().connect(1, board.get(1)).status();
    expect_error(status, Code::unavailable, "/proc/");
    expect_error(status, Code::unavailable, "another user");
  });
}

TEST(ShmPeers, AProcessThatMayNotBeTracedHandsItsMemoryOut) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  beside_rank_1(
      [](RankProcess& rank, Board& board) {
        become_nobody();
        const Status status = rank.interface().connect(1, board.get(1)).status();
        EXPECT_TRUE(status.ok()) << status.to_string();
      },
      [] {
        become_nobody();
        prctl(PR_SET_DUMPABLE, 0);
      });
}

// A rank polls, and is killed after its peer has woken it once, so that the peer has a copy of its bell.
void ring_a_dead_peer(const std::function<void()>& before) {
  const SharedBoard board;
  const SharedBoard done;
  FreshProcess one([&] {
    before();
    RankProcess rank(kShm, 1, 2, *board, small_options());
    const int bell = must(rank.interface().descriptor());
    (void)rank.interface().arm();
    done->put(1, "polls");
    pollfd waiting{bell, POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 60'000), 1);
    rank.interface().disarm();
    (void)rank.interface().arm();
    done->put(2, "polls again");
    rank.meet();
  });
  FreshProcess zero([&] {
    before();
    RankProcess rank(kShm, 0, 2, *board, small_options());
    Endpoint& peer = rank.link(1);
    (void)done->get(1);
    EXPECT_EQ(peer.post_notice(1, numbered_header(0), {}), Posted::posted);
    done->put(0, "rang");
    (void)done->get(3);
    static volatile sig_atomic_t signals = 0;
    (void)signal(SIGPIPE, [](int) { signals = signals + 1; });
    EXPECT_EQ(peer.post_notice(1, numbered_header(1), {}), Posted::posted);
    EXPECT_EQ(signals, 0) << "SIGPIPE would have ended this process";
  });
  (void)done->get(0);
  (void)done->get(2);
  one.kill();
  ASSERT_EQ(waitpid(one.pid(), nullptr, 0), one.pid());
  done->put(3, "dead");
  report(zero.join(), "rank 0");
}

TEST(ShmPeers, WakingAPeerThatHasDiedRaisesNoSignal) {
  ring_a_dead_peer([] {});
}

TEST(ShmPeers, WakingADeadPeerThatHandedItsBellOutRaisesNoSignal) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ring_a_dead_peer([] {
    become_nobody();
    prctl(PR_SET_DUMPABLE, 0);
  });
}

// Makes process_vm_readv and process_vm_writev answer EPERM, as the filters of container runtimes
// do.
[[nodiscard]] bool forbid_process_vm() {
  const auto number = [](long call) { return static_cast<std::uint32_t>(call); };
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number(SYS_process_vm_readv), 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number(SYS_process_vm_writev), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ShmPeers, WithoutProcessAccessSharedMemoryStillWorks) {
  beside_rank_1([](RankProcess& rank, Board&) {
    if (!forbid_process_vm()) GTEST_SKIP() << "no seccomp filters here";
    Endpoint& peer = rank.link(1);
    expect_error(peer.properties().process_access, Code::no_permission, "memory of process");
    std::vector<std::byte> local(8);
    ASSERT_EQ(
        peer.post_read(local,
                       {PieceForm::process, reinterpret_cast<std::uintptr_t>(local.data()), 8}, 1),
        Posted::posted);
    expect_error(wait_completion(rank.interface()).status, Code::no_permission, "memory of rank 1");
    ASSERT_EQ(peer.post_read(local, {PieceForm::view, 0, 8}, 2), Posted::posted);
    EXPECT_TRUE(wait_completion(rank.interface()).status.ok());
  });
}

TEST(ShmPeers, WithoutProcessAccessARegionOfPrivateMemorySaysWhy) {
  const SharedBoard board;
  const SharedBoard keys;
  FreshProcess one([&] {
    RankProcess rank(kShm, 1, 2, *board, small_options());
    const SharedBuffer shared(64);
    std::vector<std::byte> own(64);
    keys->put(0, must(rank.interface().expose(own)).key);
    keys->put(1, must(rank.interface().expose(shared.bytes())).key);
    rank.meet();
  });
  FreshProcess zero([&] {
    RankProcess rank(kShm, 0, 2, *board, small_options());
    if (!forbid_process_vm()) {
      rank.meet();
      GTEST_SKIP() << "no seccomp filters here";
    }
    Endpoint& peer = rank.link(1);
    const Status status = peer.import_region(keys->get(0)).status();
    expect_error(status, Code::no_permission, "in its private memory");
    expect_error(status, Code::no_permission, "memory of process");
    const std::uint32_t number = must(peer.import_region(keys->get(1)));
    const std::vector<std::byte> local(8);
    ASSERT_EQ(peer.post_write(local, {PieceForm::region, 0, 8, number}, 1), Posted::posted);
    EXPECT_TRUE(wait_completion(rank.interface()).status.ok());
    rank.meet();
  });
  report(zero.join(), "rank 0");
  report(one.join(), "rank 1");
}

// What a key says leads nowhere that the peer's heap is not.
TEST(ShmPeers, KeysThatLieLeadNowhere) {
  beside_rank_1([](RankProcess& rank, Board&) {
    const SharedBuffer buffer(64);
    RegionKey key;
    const std::string bytes = must(rank.interface().expose(buffer.bytes())).key;
    std::memcpy(&key, bytes.data(), sizeof key);
    Endpoint& self = rank.link(0);
    for (const std::uint64_t place : {std::uint64_t{1} << 60, ~std::uint64_t{0} - 63}) {
      RegionKey changed = key;
      changed.word = place;
      EXPECT_EQ(self.import_region(encode(changed)).status().code(), Code::mismatch) << place;
      changed = key;
      changed.mark = place & ~std::uint64_t{7};
      EXPECT_EQ(self.import_region(encode(changed)).status().code(), Code::mismatch) << place;
    }
    RegionKey odd = key;
    ++odd.mark;
    EXPECT_EQ(self.import_region(encode(odd)).status().code(), Code::mismatch);
    EXPECT_TRUE(self.import_region(encode(key)).ok());
  });
}

// A child that a rank forks has the rank's objects but not the rank's rights: destroying them must
// not hurt the rank.
TEST(ShmPeers, AForkedChildCannotCloseItsParentsInterface) {
  in_fresh_process([] {
    Group group(kShm, 2);
    Endpoint& peer = group.link(0, 1);
    const pid_t child = fork();
    if (child == 0) {
      group.at(1).close();
      _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_FALSE(peer.peer_closed());
  });
}

// Ranks learn whether they share a core when they open, from how their threads are bound.
TEST(ShmPeers, KnowsWhoIsBoundToTheSameCore) {
  FreshProcess process([] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) > 1) {
      Group free(kShm, 2);
      EXPECT_FALSE(free.link(0, 1).properties().shares_core);
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    Group bound(kShm, 2);
    EXPECT_TRUE(bound.link(0, 1).properties().shares_core);
  });
  report(process.join(), "the bound process");
}

}  // namespace
}  // namespace weft
