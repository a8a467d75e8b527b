// The process's one heap and its functions.
#include "verbs/memory/memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>

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
  if (made->identity().process != getpid()) return forked_child_error("the shared heap");
  return made;
}

bool equal(const HeapOptions& a, const HeapOptions& b) {
  return a.directory == b.directory && a.address_bytes == b.address_bytes &&
         a.huge_pages == b.huge_pages;
}

// The inode number of a link such as /proc/self/ns/pid tells namespaces apart. 0 if it cannot be
// read.
std::uint64_t namespace_number(const char* link) {
  struct stat found {};
  return stat(link, &found) == 0 ? found.st_ino : 0;
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

Result<void*> reserve_heap_addresses(std::size_t bytes) {
  WEFT_ASSIGN(Heap * made, heap());
  return made->reserve(bytes);
}

Result<std::byte*> heap_board() {
  WEFT_ASSIGN(Heap * made, heap());
  return made->board();
}

HeapUsage heap_usage() {
  Heap* made = process_heap().heap.load(std::memory_order_acquire);
  return made == nullptr ? HeapUsage{} : made->usage();
}

Result<HeapIdentity> heap_identity() {
  WEFT_ASSIGN(Heap * made, heap());
  static std::once_flag opened;
  std::call_once(opened, [made] { made->start_descriptor_server(); });
  return made->identity();
}

// A pid means something in /proc only if /proc shows our own pid namespace; else this returns 0.
std::uint64_t this_process_space() {
  std::array<char, 16> self{};
  if (readlink("/proc/self", self.data(), self.size() - 1) <= 0) return 0;
  return std::to_string(getpid()) == self.data() ? namespace_number("/proc/self/ns/pid") : 0;
}

std::uint64_t this_network_space() {
  return namespace_number("/proc/self/ns/net");
}

pid_t process_here(const HeapIdentity& identity) {
  const bool is_shared =
      identity.process_space != 0 && identity.process_space == this_process_space();
  return is_shared ? identity.process : -1;
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

// A forked child lets nothing go, because the pages are its parent's.
HeapHold::~HeapHold() {
  if (bytes_ == 0) return;
  Heap* made = process_heap().heap.load(std::memory_order_acquire);
  if (made->identity().process == getpid()) made->let_go(offset_, bytes_);
}

}  // namespace weft
