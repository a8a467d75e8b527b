// memory: where tensors live. The process's shared heap, which ranks of one machine read in place.
//
// A process has one heap: a single anonymous file of sparse pages (a memfd, or an unnamed file in
// Config::shm_dir). The file is mapped once here and once by each peer process. So to a peer an
// address in the heap is (heap, offset), and no table of segments is needed. Nothing has a name in
// the file system, and the mode is 0600. The kernel frees everything when the last process that
// maps the file ends, also after a crash.
//
// Pages are reserved at allocation and given back at deallocation. So if the machine's memory is
// full, allocate() returns an error, and no later access faults.
//
// registrations.h: Registrations keeps what a transport registered with its device, in the heap and
// elsewhere, until the pages go; shared_registrations.h: what lanes have registered with a device
// that they share. preference.h: MemoryPreference chooses the NUMA node of what is
// allocated next.
//
// Threads: every function is thread safe. The heap is made at the first use and lives as long as
// the process.
#pragma once

#include <sys/types.h>
#include <weft/memory.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "verbs/base/base.h"
#include "verbs/memory/preference.h"
#include "verbs/memory/registrations.h"
#include "verbs/memory/shared_registrations.h"

namespace weft {

enum class HugePages : std::uint8_t { automatic, off };

struct HeapOptions {
  std::string directory;          // empty: memfd. Else a tmpfs or hugetlbfs mount
  std::size_t address_bytes = 0;  // address space; 0: physical memory, less where a limit is set
  HugePages huge_pages = HugePages::automatic;
  // How many processes of this machine map each other's heaps. A limit of address space is divided
  // among them. It has no effect once the heap exists.
  int processes = 1;
};

// Sets how the heap will be made. After the heap exists only equal options are ok.
Status configure_heap(const HeapOptions& options);

// By the ticket a process proves to a heap's owner that it knows the heap's identity. All zero: the
// owner has no descriptor server (descriptor_server.h), so it hands out no descriptors.
using HeapTicket = std::array<std::uint64_t, 2>;

// What peers need to map the heap. It is a secret of the job's ranks, because the descriptor server
// answers whoever has it (descriptor_server.h).
struct HeapIdentity {
  std::int32_t process = 0;  // pid in its pid namespace
  std::int32_t file = -1;    // descriptor number in that process
  std::uint64_t bytes = 0;   // of address space
  std::uint64_t nonce = 0;   // tells heaps apart, also when a pid is reused or means something else
  HeapTicket ticket{};
  std::uint64_t process_space = 0;  // the pid namespace; 0: /proc does not show it
  std::uint64_t network_space = 0;  // the network namespace
};
[[nodiscard]] Result<HeapIdentity> heap_identity();

// The namespaces of this process, as HeapIdentity has them.
[[nodiscard]] std::uint64_t this_process_space();
[[nodiscard]] std::uint64_t this_network_space();
// The pid by which this process can name the process of `identity`. -1 if the two are in different
// pid namespaces, where the pid would mean another process or none.
[[nodiscard]] pid_t process_here(const HeapIdentity& identity);

// Lets peers ask the descriptor server (descriptor_server.h) for a copy of this descriptor by its
// number (PeerHeap::descriptor()). Withdraw it before it is closed.
void offer_descriptor(int descriptor);
void withdraw_descriptor(int descriptor);

inline constexpr std::uint64_t kNotInHeap = ~std::uint64_t{0};
// Offset of [pointer, pointer+bytes) in this process's heap, or kNotInHeap if any of it lies
// elsewhere.
[[nodiscard]] std::uint64_t heap_offset(const void* pointer, std::size_t bytes);
// The address of an offset in this process's own heap.
[[nodiscard]] void* heap_address(std::uint64_t offset);

// Addresses of the heap without pages, for what peers know by an address and find elsewhere: memory
// of a GPU. Nobody may touch them. deallocate() gives them back.
[[nodiscard]] Result<void*> reserve_heap_addresses(std::size_t bytes);

// A part of the heap that peers find without being told where it is (PeerHeap::board()). Zero at
// first; what stands there is agreed between processes that share it.
inline constexpr std::size_t kBoardBytes = std::size_t{64} << 10;
[[nodiscard]] Result<std::byte*> heap_board();

// Keeps pages of the heap that are registered with a device, so that peers may go on using the
// registration. A registration means pages and not addresses. While a hold lives, deallocate()
// keeps the pages that it covers, and allocate() clears them before it gives them out again.
// Without the hold the addresses would get other pages, and what peers write through the device
// would land in the old ones, which nobody reads.
class HeapHold {
 public:
  HeapHold() = default;
  // Holds the whole huge pages around [offset, offset+bytes) of this process's heap, which exists.
  HeapHold(std::uint64_t offset, std::uint64_t bytes);
  HeapHold(HeapHold&& other) noexcept
      : offset_(other.offset_), bytes_(std::exchange(other.bytes_, 0)) {}
  HeapHold& operator=(HeapHold&& other) noexcept {
    std::swap(offset_, other.offset_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  HeapHold(const HeapHold&) = delete;
  HeapHold& operator=(const HeapHold&) = delete;
  ~HeapHold();

 private:
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;  // 0: nothing is held
};

// A peer process's heap, mapped here. Shared by all endpoints to ranks of that process; unmapped
// with the last reference. For our own process it is the heap itself.
class PeerHeap {
 public:
  // Maps the heap through /proc if both processes are in one pid namespace and the kernel allows
  // it, else through the peer's descriptor server (descriptor_server.h). peer_died: that process
  // has ended. unavailable: its memory cannot be shared; the text has the reason for each way.
  static Result<std::shared_ptr<const PeerHeap>> open(const HeapIdentity& identity);
  // The heap, mapped here, that has all of these bytes; null: there is none.
  static std::shared_ptr<const PeerHeap> around(const void* memory, std::size_t bytes);
  ~PeerHeap();
  PeerHeap(const PeerHeap&) = delete;
  PeerHeap& operator=(const PeerHeap&) = delete;

  // The address here of [offset, offset+bytes) there; nullptr if that leaves the heap.
  [[nodiscard]] void* at(std::uint64_t offset, std::size_t bytes) const {
    return offset <= bytes_ && bytes <= bytes_ - offset ? base_ + offset : nullptr;
  }
  [[nodiscard]] bool is_own() const { return !mapped_; }
  // Tells heaps apart.
  [[nodiscard]] std::uint64_t nonce() const { return identity_.nonce; }
  // Offset of memory in it.
  [[nodiscard]] std::uint64_t offset_of(const void* memory) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(memory) - base_);
  }
  // heap_board() of the owner; null: it has none yet.
  [[nodiscard]] const std::byte* board() const;
  // process_here() of the owner.
  [[nodiscard]] pid_t process() const { return process_here(identity_); }
  // A descriptor that is readable or hung up once the owner has ended. Invalid for our own process,
  // and if the kernel offers no such descriptor.
  [[nodiscard]] const Fd& life() const { return life_; }
  // A copy of a descriptor that the owner has offered.
  [[nodiscard]] Result<Fd> descriptor(int number) const;

 private:
  PeerHeap(std::byte* base, const HeapIdentity& identity, std::size_t bytes, bool mapped)
      : base_(base), identity_(identity), bytes_(bytes), mapped_(mapped) {}
  std::byte* base_;
  HeapIdentity identity_;  // as it was announced
  std::size_t bytes_;
  bool mapped_;
  Fd life_;
};

}  // namespace weft
