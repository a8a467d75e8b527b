// The heap as other processes see it, and what a forked child may not do with its parent's.
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/memory/forbid.h"
#include "tests/memory/fresh_heap.h"
#include "verbs/memory/descriptor_server.h"

namespace weft {
namespace {

// A pipe from one child to another, open in both from before they were forked.
class Pipe {
 public:
  Pipe() {
    if (pipe(ends_.data()) != 0) throw std::runtime_error("pipe failed");
  }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  template <typename T>
  void put(const T& value) const {
    if (write(ends_[1], &value, sizeof value) != sizeof value)
      throw std::runtime_error("nobody reads");
  }
  template <typename T>
  [[nodiscard]] T get() const {
    T value;
    if (read(ends_[0], &value, sizeof value) != sizeof value)
      throw std::runtime_error("nobody writes");
    return value;
  }

 private:
  std::array<int, 2> ends_{};
};

struct Announcement {
  HeapIdentity heap;
  std::uint64_t offset;
  std::uint64_t huge;  // bytes that the owner's kernel put on huge pages
};

constexpr std::size_t kBytes = std::size_t{8} << 20;

// Runs `peer` in a process beside one that owns a block of kBytes, filled with 0x5a, until the peer
// ends. The owner then expects 0xa5 in the block's last byte.
void beside_owner(const std::function<void(const Announcement&)>& peer) {
  const Pipe there;
  const Pipe back;
  FreshProcess owner([&] {
    std::byte* block = take(kBytes);
    std::memset(block, 0x5a, kBytes);
    there.put(
        Announcement{heap_identity().value(), heap_offset(block, kBytes), heap_usage().huge_bytes});
    (void)back.get<char>();
    EXPECT_EQ(block[kBytes - 1], std::byte{0xa5});
  });
  FreshProcess other([&] {
    peer(there.get<Announcement>());
    back.put('x');
  });
  report(other.join(), "peer");
  report(owner.join(), "owner");
}

std::byte* mapped(const PeerHeap& heap, const Announcement& announced) {
  auto* block = static_cast<std::byte*>(heap.at(announced.offset, kBytes));
  if (block == nullptr) throw std::runtime_error("the announced block is not in the heap");
  block[kBytes - 1] = std::byte{0xa5};
  return block;
}

TEST(Peers, SeeAndChangeWhatTheOwnerWrote) {
  beside_owner([](const Announcement& announced) {
    const auto heap = PeerHeap::open(announced.heap);
    ASSERT_TRUE(heap.ok()) << heap.status().to_string();
    const std::byte* block = mapped(*heap.value(), announced);
    for (std::size_t i = 0; i < kBytes - 1; ++i) ASSERT_EQ(block[i], std::byte{0x5a}) << i;
    EXPECT_EQ(PeerHeap::open(announced.heap).value(), heap.value()) << "a heap is mapped once";
  });
}

TEST(Peers, NothingOutsideOfTheHeapHasAnAddress) {
  beside_owner([](const Announcement& announced) {
    const auto heap = PeerHeap::open(announced.heap).value();
    (void)mapped(*heap, announced);
    const std::uint64_t bytes = announced.heap.bytes;
    EXPECT_NE(heap->at(bytes - 1, 1), nullptr);
    EXPECT_EQ(heap->at(bytes - 1, 2), nullptr);
    EXPECT_EQ(heap->at(bytes + 1, 0), nullptr);
    EXPECT_EQ(heap->at(64, ~std::size_t{0} - 32), nullptr);
    EXPECT_EQ(heap->at(~std::uint64_t{0}, 2), nullptr);
  });
}

// ShmemPmdMapped, in KiB, of the mapping that begins at `address`.
std::size_t huge_mapped_kib(const void* address) {
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(address) << '-';
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    here = here || line.starts_with(start.str());
    if (here && line.starts_with("ShmemPmdMapped:")) return std::stoul(line.substr(15));
  }
  return 0;
}

TEST(Peers, MapHugePagesAsHugePages) {
  beside_owner([](const Announcement& announced) {
    const auto heap = PeerHeap::open(announced.heap).value();
    const std::byte* block = mapped(*heap, announced);
    if (announced.huge < kBytes) GTEST_SKIP() << "the kernel gave the owner no huge pages";
    unsigned sum = 0;
    for (std::size_t at = 0; at < kBytes; at += 4096) sum += std::to_integer<unsigned>(block[at]);
    EXPECT_EQ(sum, 0x5au * (kBytes / 4096));
    EXPECT_GE(huge_mapped_kib(heap->at(0, 1)), kBytes / 1024);
  });
}

TEST(Peers, TheHeapOfThisProcessIsItsOwnMapping) {
  with_heap(heap_of_mib(8), [] {
    std::byte* block = take(100);
    HeapIdentity identity = heap_identity().value();
    const auto heap = PeerHeap::open(identity).value();
    EXPECT_EQ(heap->at(heap_offset(block, 100), 100), block);
    identity.bytes = ~std::uint64_t{0};
    EXPECT_EQ(PeerHeap::open(identity).value()->at(std::uint64_t{8} << 20, 1), nullptr)
        << "a lie about the size";
  });
}

// As if the peer were in another pid namespace, where its pid means nothing.
HeapIdentity far_away(HeapIdentity identity) {
  ++identity.process_space;
  return identity;
}

TEST(Peers, ComeThroughTheDoorWhereAPidMeansNothing) {
  beside_owner([](const Announcement& announced) {
    const auto heap = PeerHeap::open(far_away(announced.heap));
    ASSERT_TRUE(heap.ok()) << heap.status().to_string();
    EXPECT_EQ(mapped(**heap, announced)[0], std::byte{0x5a});
    EXPECT_EQ((*heap)->process(), -1);
    EXPECT_FALSE((*heap)->is_own());
  });
}

// The name of the descriptor server's socket, which everybody sees in /proc/net/unix.
struct Name {
  sockaddr_un address{};
  socklen_t bytes = 0;
};
Name name_of(const HeapIdentity& identity) {
  Name name;
  name.address.sun_family = AF_UNIX;
  const std::string text = fmt::format("weft-{:016x}", identity.nonce);
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

// Who only sees the socket's name, in /proc/net/unix, has no ticket.
TEST(Peers, GetNothingAtTheDoorWithoutTheTicket) {
  beside_owner([](const Announcement& announced) {
    HeapIdentity stranger = far_away(announced.heap);
    stranger.ticket[1] ^= 1;
    const Status status = PeerHeap::open(stranger).status();
    EXPECT_EQ(status.code(), Code::unavailable);
    EXPECT_NE(status.text().find("refused"), std::string_view::npos) << status.to_string();
    (void)mapped(*PeerHeap::open(announced.heap).value(), announced);
  });
}

// A client of our own user that says nothing is one of many that are waited for.
TEST(Peers, ComeThroughTheDoorBesideSilentGuests) {
  beside_owner([](const Announcement& announced) {
    const Name server = name_of(announced.heap);
    std::vector<Fd> silent;
    for (int k = 0; k < 300; ++k) {
      silent.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      ASSERT_EQ(connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&server.address),
                        server.bytes),
                0);
    }
    const auto heap = PeerHeap::open(far_away(announced.heap));
    ASSERT_TRUE(heap.ok()) << heap.status().to_string();
    EXPECT_EQ(mapped(**heap, announced)[0], std::byte{0x5a});
    char byte = 0;
    EXPECT_EQ(recv(silent.front().get(), &byte, 1, 0), 0) << "more than are waited for";
  });
}

// Who floods it holds up nobody, whatever is said, and leaves nothing open there.
TEST(Peers, ComeThroughTheDoorWhileTenThousandKnock) {
  beside_owner([](const Announcement& announced) {
    const auto open_at_owner = [&announced] {
      const std::filesystem::directory_iterator all("/proc/" +
                                                    std::to_string(announced.heap.process) + "/fd");
      return std::distance(begin(all), end(all));
    };
    const auto before = open_at_owner();
    const Name server = name_of(announced.heap);
    std::atomic<int> knocks = 0;
    std::thread crowd([&] {
      std::vector<Fd> calls(500);
      for (int k = 0; k < 10'000; ++k, ++knocks) {
        Fd& call = calls[static_cast<std::size_t>(k) % calls.size()];
        call = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        if (connect(call.get(), reinterpret_cast<const sockaddr*>(&server.address), server.bytes))
          continue;
        const std::string words(static_cast<std::size_t>(k % 40), 'x');
        (void)send(call.get(), words.data(), words.size(), MSG_NOSIGNAL);
      }
    });
    int asked = 0;
    for (; knocks < 10'000; ++asked) {
      const auto heap = PeerHeap::open(far_away(announced.heap));
      EXPECT_TRUE(heap.ok()) << heap.status().to_string();
      if (!heap.ok()) break;
    }
    crowd.join();
    EXPECT_GT(asked, 0);
    (void)mapped(*PeerHeap::open(announced.heap).value(), announced);
    const Deadline deadline = Deadline::after_ms(20'000);
    while (open_at_owner() > before + 2 && !deadline.passed()) sched_yield();
    EXPECT_LE(open_at_owner(), before + 2);
  });
}

TEST(Peers, OfAnotherUserGetNothingAtTheDoor) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  beside_owner([](const Announcement& announced) {
    const std::shared_ptr<const PeerHeap> before = PeerHeap::open(announced.heap).value();
    (void)mapped(*before, announced);
    (void)take(1);
    ASSERT_EQ(setuid(65'534), 0);
    HeapIdentity other = far_away(announced.heap);
    const Status status = request_descriptor(other, other.file).status();
    EXPECT_EQ(status.code(), Code::unavailable);
    EXPECT_NE(status.text().find("another user"), std::string_view::npos) << status.to_string();
  });
}

TEST(Peers, GetNoDescriptorThatWasNotOffered) {
  beside_owner([](const Announcement& announced) {
    const auto heap = PeerHeap::open(far_away(announced.heap)).value();
    (void)mapped(*heap, announced);
    EXPECT_EQ(heap->descriptor(0).status().code(), Code::unavailable);
    EXPECT_TRUE(heap->descriptor(announced.heap.file).ok());
  });
}

// With a pidfd, and where the owner may not make one by the connection.
TEST(Peers, LearnTheEndOfAProcessWhosePidMeansNothing) {
  for (const bool may_make_pidfd : {true, false}) {
    const Pipe there;
    FreshProcess owner([&] {
      const long calls[] = {SYS_pidfd_open};
      if (!may_make_pidfd && !forbid(calls)) GTEST_SKIP() << "no filters of system calls here";
      (void)take(1);
      there.put(Announcement{heap_identity().value(), 0, 0});
      pause();
    });
    const Pipe opened;
    FreshProcess other([&] {
      const auto heap = PeerHeap::open(far_away(there.get<Announcement>().heap)).value();
      pollfd life{heap->life().get(), POLLIN, 0};
      EXPECT_EQ(poll(&life, 1, 0), 0) << "it lives";
      opened.put('x');
      EXPECT_EQ(poll(&life, 1, 20'000), 1) << "it has ended";
    });
    (void)opened.get<char>();
    owner.kill();
    report(other.join(), may_make_pidfd ? "by a pidfd" : "by the connection");
  }
}

TEST(Peers, ThatHaveEndedAreDeadWhereAPidMeansNothing) {
  const Pipe there;
  FreshProcess owner([&] {
    (void)take(1);
    there.put(Announcement{heap_identity().value(), 0, 0});
  });
  const HeapIdentity ended = there.get<Announcement>().heap;
  report(owner.join(), "owner");
  in_fresh_process([&] {
    EXPECT_EQ(PeerHeap::open(far_away(ended)).status().code(), Code::peer_died);
    HeapIdentity elsewhere = far_away(ended);
    ++elsewhere.network_space;
    const Status status = PeerHeap::open(elsewhere).status();
    EXPECT_EQ(status.code(), Code::unavailable) << "it may live where our sockets do not reach";
    EXPECT_NE(status.text().find("network namespace"), std::string_view::npos)
        << status.to_string();
  });
}

// Runs `body` in a child that the current process forks after it has used its heap.
void in_forked_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Fork, AChildMayNotUseItsParentsHeap) {
  with_heap(heap_of_mib(8), [] {
    const HeapIdentity identity = (take(1), heap_identity().value());
    in_forked_child([&] {
      for (const Status& status :
           {allocate(100).status(), heap_identity().status(), PeerHeap::open(identity).status()}) {
        EXPECT_EQ(status.code(), Code::unavailable);
        EXPECT_NE(status.text().find("was forked from"), std::string_view::npos)
            << status.to_string();
      }
    });
  });
}

TEST(Fork, AChildThatFreesAtItsExitTakesNothingFromItsParent) {
  with_heap(heap_of_mib(16), [] {
    std::byte* block = take(4 << 20);
    std::memset(block, 0x5a, 4 << 20);
    in_forked_child([&] { deallocate(block); });
    EXPECT_EQ(block[(4 << 20) - 1], std::byte{0x5a});
    deallocate(block);
  });
}

}  // namespace
}  // namespace weft
