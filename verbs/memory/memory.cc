// The process's one heap and its functions; and the mapping of peers' heaps.
#include "verbs/memory/memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>

#include "verbs/memory/heap.h"

namespace weft {
namespace {

// The heap is never destroyed: objects with static lifetime may still free into it at exit.
struct ProcessHeap {
  std::mutex mutex;
  HeapOptions options;
  std::atomic<Heap*> heap{nullptr};
};

ProcessHeap& process_heap() {
  static auto* instance = new ProcessHeap;
  return *instance;
}

Result<Heap*> heap() {
  ProcessHeap& process = process_heap();
  Heap* made = process.heap.load(std::memory_order_acquire);
  if (made == nullptr) {
    const std::lock_guard lock(process.mutex);
    made = process.heap.load(std::memory_order_relaxed);
    if (made == nullptr) {
      WEFT_ASSIGN(std::unique_ptr<Heap> opened, Heap::open(process.options));
      made = opened.release();
      process.heap.store(made, std::memory_order_release);
    }
  }
  if (made->identity().process != getpid()) {
    return Status(Code::invalid_argument,
                  "the shared heap belongs to the parent process; a forked child cannot use it "
                  "(fork before the first use of Weft, or exec)");
  }
  return made;
}

bool equal(const HeapOptions& a, const HeapOptions& b) {
  return a.directory == b.directory && a.address_bytes == b.address_bytes &&
         a.huge_pages == b.huge_pages;
}

// Which peer heaps this process has mapped, so that ranks of one process share a mapping.
struct Mappings {
  std::mutex mutex;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::weak_ptr<const PeerHeap>> open;
};

Mappings& mappings() {
  static auto* instance = new Mappings;
  return *instance;
}

Status other_process(const HeapIdentity& identity) {
  return Status(Code::peer_died,
                fmt::format("process {} is not the one that was announced", identity.process));
}

// The peer's file. The identity came over the wire: nothing is mapped before the file agrees with
// it, because a page past the end of a file is a fault.
Result<int> open_peer_file(const HeapIdentity& identity) {
  const std::string path = fmt::format("/proc/{}/fd/{}", identity.process, identity.file);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) {
    return Status(
        Code::peer_died,
        fmt::format("process {} has ended or is in another pid namespace: no shared heap at {}",
                    identity.process, path));
  }
  if (fd < 0) {
    return system_error(
        fmt::format("opening the shared heap of process {} ({})", identity.process, path), errno);
  }
  struct stat file {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || identity.bytes < kHugePage ||
      identity.bytes % kHugePage != 0 ||
      static_cast<std::uint64_t>(file.st_size) != identity.bytes) {
    close(fd);
    return other_process(identity);
  }
  return fd;
}

Result<std::byte*> map_peer(const HeapIdentity& identity) {
  WEFT_ASSIGN(const int fd, open_peer_file(identity));
  void* reserved = mmap(nullptr, identity.bytes + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    const int error = errno;
    close(fd);
    return system_error(fmt::format("mapping the shared heap of process {}", identity.process),
                        error);
  }
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t aligned = (start + kHugePage - 1) & ~(kHugePage - 1);
  // The slack around the aligned part goes back at once, so that unmapping needs only the part
  // itself.
  if (aligned != start) munmap(reserved, aligned - start);
  munmap(reinterpret_cast<void*>(aligned + identity.bytes), start + kHugePage - aligned);
  void* mapped = mmap(reinterpret_cast<void*>(aligned), identity.bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
  const int error = errno;
  close(fd);
  if (mapped == MAP_FAILED) {
    munmap(reinterpret_cast<void*>(aligned), identity.bytes);
    return system_error(fmt::format("mapping the shared heap of process {}", identity.process),
                        error);
  }
  const auto* mark = static_cast<const HeapMark*>(mapped);
  if (mark->magic != HeapMark::kMagic || mark->nonce != identity.nonce) {
    munmap(mapped, identity.bytes);
    return other_process(identity);
  }
  return static_cast<std::byte*>(mapped);
}

}  // namespace

Status configure_heap(const HeapOptions& options) {
  ProcessHeap& process = process_heap();
  const std::lock_guard lock(process.mutex);
  if (process.heap.load() != nullptr && !equal(process.options, options)) {
    return Status(
        Code::invalid_argument,
        "the shared heap exists already with other settings (WEFT_SHM_DIR, WEFT_HEAP_MIB, "
        "WEFT_HUGE_PAGES must be the same for all contexts of a process)");
  }
  process.options = options;
  return {};
}

Result<void*> allocate(std::size_t bytes) {
  if (is_forked_child()) return forked_child_error("allocate");
  WEFT_ASSIGN(Heap * made, heap());
  return made->allocate(bytes);
}

void deallocate(void* pointer) {
  if (is_forked_child()) return;  // the memory is the parent's
  if (pointer == nullptr) return;
  Heap* made = process_heap().heap.load(std::memory_order_acquire);
  invariant(made != nullptr, "weft::deallocate before any weft::allocate");
  // A forked child runs destructors at its exit; the pages that they would give back are still its
  // parent's.
  if (made->identity().process != getpid()) return;
  made->deallocate(pointer);
}

HeapUsage heap_usage() {
  Heap* made = process_heap().heap.load(std::memory_order_acquire);
  return made == nullptr ? HeapUsage{} : made->usage();
}

Result<HeapIdentity> heap_identity() {
  WEFT_ASSIGN(Heap * made, heap());
  return made->identity();
}

std::uint64_t heap_offset(const void* pointer, std::size_t bytes) {
  const Heap* made = process_heap().heap.load(std::memory_order_acquire);
  if (made == nullptr) return kNotInHeap;
  const auto offset =
      reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(made->base());
  const std::uint64_t size = made->identity().bytes;
  return offset < size && bytes <= size - offset ? offset : kNotInHeap;
}

void* heap_address(std::uint64_t offset) {
  return process_heap().heap.load(std::memory_order_acquire)->base() + offset;
}

HeapHold::HeapHold(std::uint64_t offset, std::uint64_t bytes) : offset_(offset), bytes_(bytes) {
  process_heap().heap.load(std::memory_order_acquire)->hold(offset, bytes);
}

// The pages of a forked child are its parent's.
HeapHold::~HeapHold() {
  if (bytes_ == 0) return;
  Heap* made = process_heap().heap.load(std::memory_order_acquire);
  if (made->identity().process == getpid()) made->let_go(offset_, bytes_);
}

Result<std::shared_ptr<const PeerHeap>> PeerHeap::open(const HeapIdentity& identity) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  auto& known = all.open[{identity.process, identity.nonce}];
  if (auto shared = known.lock()) return shared;
  WEFT_ASSIGN(Heap * own, heap());
  std::shared_ptr<const PeerHeap> opened;
  if (own->identity().process == identity.process && own->identity().nonce == identity.nonce) {
    opened.reset(new PeerHeap(own->base(), own->identity().bytes, false));
  } else {
    WEFT_ASSIGN(std::byte * base, map_peer(identity));
    opened.reset(new PeerHeap(base, identity.bytes, true));
  }
  known = opened;
  return opened;
}

PeerHeap::~PeerHeap() {
  if (mapped_) munmap(base_, bytes_);
}

}  // namespace weft
