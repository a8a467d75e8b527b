// Making the heap: an unnamed file, its mapping, the commitment of pages, huge pages where the
// kernel gives them.
#include "verbs/memory/heap.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs/memory/changes.h"
#include "verbs/memory/control_group.h"

namespace weft {
namespace {

#ifndef MADV_COLLAPSE
constexpr int MADV_COLLAPSE =
    25;  // Linux 6.1; older kernels answer EINVAL and the pages stay small
#endif

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// If not even this much address space can be had, opening the heap fails. A smaller heap would be
// no help; the error says more.
constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 20;
// The heaps of a machine's ranks may together take 1 / kShareOfSpace of the address space that is
// left to a process; the rest is the program's.
constexpr std::uint64_t kShareOfSpace = 2;
// Pages are taken in steps. Ranks that take pages at once each see the same room in their control
// group, so a step needs room for one of every process.
constexpr std::uint64_t kStep = std::uint64_t{8} << 20;

// A tmpfs that Linux systems have. The heap is there if the kernel gives no memfd, for example
// because a filter of system calls forbids it.
constexpr const char* kMemoryDirectory = "/dev/shm";

// No name is ever linked, so nothing can be left behind.
Result<int> unnamed_file(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  return system_error("creating the shared heap in " + directory, errno);
}

// Sets `backing` to where the file is.
Result<int> heap_file(const std::string& directory, std::string& backing) {
  backing = directory;
  if (!directory.empty()) return unnamed_file(directory);
  backing = "memfd";
  if (const int fd = memfd_create("weft", MFD_CLOEXEC); fd >= 0) return fd;
  const Status why = system_error("creating the shared heap (memfd)", errno);
  Result<int> file = unnamed_file(kMemoryDirectory);
  if (!file.ok()) {
    return Status(why.code(), fmt::format("{}; {}; WEFT_SHM_DIR names another place", why.text(),
                                          file.status().text()));
  }
  log(LogLevel::info, fmt::format("{}; it is in {}", why.text(), kMemoryDirectory));
  backing = kMemoryDirectory;
  return file;
}

// The address space to begin with: what was asked for, or as much as physical memory. Every rank
// maps the heaps of the others on its machine beside its own, so a limit is shared out among all of
// them.
std::uint64_t wanted_bytes(const HeapOptions& options) {
  if (options.address_bytes != 0) return round_up(options.address_bytes, kHugePage);
  std::uint64_t bytes = round_up(physical_memory(), kHugePage);
  const std::uint64_t share = free_address_space() / kShareOfSpace /
                              static_cast<std::uint64_t>(std::max(options.processes, 1));
  while (bytes > share && bytes > kLeastBytes) bytes = round_up(bytes / 2, kHugePage);
  return std::min(bytes, std::max(most_file_bytes() / kHugePage, std::uint64_t{1}) * kHugePage);
}

}  // namespace

// If no size was asked for, it is halved until the kernel agrees.
Status Heap::map_file() {
  const bool is_asked_for = options_.address_bytes != 0;
  const std::uint64_t first = wanted_bytes(options_);
  // A file that grew beyond the limit would raise SIGXFSZ.
  if (first > most_file_bytes()) {
    return Status(
        Code::exhausted,
        fmt::format("the shared heap of {} MiB is larger than files may be (ulimit -f is {} "
                    "KiB); WEFT_HEAP_MIB asks for another size",
                    first >> 20, most_file_bytes() >> 10));
  }
  for (std::uint64_t bytes = first;; bytes = round_up(bytes / 2, kHugePage)) {
    Result<std::byte*> mapped = map_aligned(identity_.file, bytes, "this process");
    const bool is_last = is_asked_for || bytes <= kLeastBytes;
    if (!mapped.ok() && (is_last || mapped.status().code() != Code::exhausted))
      return mapped.status();
    if (!mapped.ok()) continue;
    base_ = *mapped;
    identity_.bytes = bytes;
    break;
  }
  if (ftruncate(identity_.file, static_cast<off_t>(identity_.bytes)) != 0) {
    return system_error(
        fmt::format("giving the shared heap {} MiB of address space", identity_.bytes >> 20),
        errno);
  }
  if (!is_asked_for && identity_.bytes < round_up(physical_memory(), kHugePage)) {
    log(LogLevel::info,
        fmt::format("the shared heap has {} MiB of address space, as little is free "
                    "(ulimit -v, ulimit -f); WEFT_HEAP_MIB asks for more",
                    identity_.bytes >> 20));
  }
  return {};
}

Result<std::unique_ptr<Heap>> Heap::open(const HeapOptions& options) {
  std::unique_ptr<Heap> heap(new Heap);
  heap->options_ = options;
  HeapIdentity& identity = heap->identity_;
  identity.process = getpid();
  identity.process_space = this_process_space();
  identity.network_space = this_network_space();
  WEFT_ASSIGN(identity.file, heap_file(options.directory, heap->backing_));
  if (getrandom(&identity.nonce, sizeof identity.nonce, 0) != sizeof identity.nonce) {
    return system_error("drawing the heap's nonce", errno);
  }
  if (fchmod(identity.file, 0600) != 0) return system_error("protecting the shared heap", errno);
  WEFT_RETURN_IF_ERROR(heap->map_file());
  heap->large_.give(0, identity.bytes);
  WEFT_ASSIGN(void* mark, heap->allocate(sizeof(HeapMark)));
  invariant(mark == heap->base_, "the heap's mark is its first allocation");
  new (mark) HeapMark{HeapMark::kMagic, identity.nonce, 0};
  return heap;
}

Heap::~Heap() {
  if (base_ != nullptr) munmap(base_, identity_.bytes);
  if (identity_.file >= 0) close(identity_.file);
}

Status Heap::no_room(std::uint64_t bytes) const {
  return Status(Code::exhausted,
                fmt::format("weft::allocate: no {} KiB left in the shared heap of {} MiB; "
                            "WEFT_HEAP_MIB asks for more{}",
                            bytes >> 10, identity_.bytes >> 20,
                            options_.address_bytes == 0 ? " than was to be had by itself" : ""));
}

Status Heap::commit(std::uint64_t offset, std::uint64_t bytes) {
  int rc = 0;
  do {
    rc = fallocate(identity_.file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc == 0) return {};
  const int error = errno;
  // What was reserved before the failure goes back, so that a failed request costs nothing.
  give_back(offset, bytes);
  return system_error(
      fmt::format("weft::allocate: reserving {} KiB of shared memory ({})", bytes >> 10, backing_),
      error);
}

// Huge pages are taken before commit(), because the kernel then clears a huge page instead of
// copying 512 small ones into it. One small page is reserved in each huge page first. It decides
// the NUMA node, because a huge page is made on the node where most of its small pages are.
std::uint64_t Heap::take_huge_pages(std::uint64_t offset, std::uint64_t bytes) {
  if (options_.huge_pages == HugePages::off) return 0;
  (void)madvise(base_ + offset, bytes, MADV_HUGEPAGE);
  for (std::uint64_t page = offset; page < offset + bytes; page += kHugePage) {
    (void)fallocate(identity_.file, 0, static_cast<off_t>(page), kPage);
  }
  return madvise(base_ + offset, bytes, MADV_COLLAPSE) == 0 ? bytes : 0;
}

Status Heap::check_group(std::uint64_t bytes) const {
  const GroupMemory group = group_memory();
  const auto ranks = static_cast<std::uint64_t>(std::max(options_.processes, 1));
  if (group.free_bytes / (ranks + 1) >= bytes) return {};
  return Status(Code::exhausted,
                fmt::format("weft::allocate: the memory limit of the control group {} ({} MiB) "
                            "leaves {} MiB, too little for its {} ranks to go on",
                            group.group, group.limit_bytes >> 20, group.free_bytes >> 20, ranks));
}

Result<std::uint64_t> Heap::take_pages(std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t huge = 0;
  for (std::uint64_t taken = 0; taken < bytes; taken += kStep) {
    const std::uint64_t step = std::min(kStep, bytes - taken);
    Status status = check_group(step);
    if (status.ok()) {
      huge += take_huge_pages(offset + taken, step);
      status = commit(offset + taken, step);
    }
    if (status.ok()) continue;
    // A request that fails costs nothing.
    give_back(offset, taken);
    return status;
  }
  return huge;
}

// Requests from a page up are aligned to pages, so that a packet of one page lies in one page: a
// device that maps memory page by page then reads and writes it at once.
Result<std::uint64_t> Heap::take_small(std::uint64_t bytes) {
  const std::uint64_t alignment = bytes < kPage ? kCacheLine : kPage;
  if (const auto offset = small_.take(bytes, alignment)) return *offset;
  const auto arena = large_.take(kHugePage, kHugePage);
  if (!arena) return no_room(kHugePage);
  const Result<std::uint64_t> huge = take_pages(*arena, kHugePage);
  if (!huge.ok()) {
    large_.give(*arena, kHugePage);
    return huge.status();
  }
  clear_held(*arena, kHugePage);
  huge_ += *huge;
  small_.give(*arena, kHugePage);
  return *small_.take(bytes, alignment);
}

Result<void*> Heap::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > identity_.bytes) return no_room(bytes);
  // The rounded size decides between small and large here, because deallocate() knows only that
  // size.
  if (const std::uint64_t lines = round_up(bytes == 0 ? 1 : bytes, kCacheLine);
      lines < kLargeRequest) {
    WEFT_ASSIGN(const std::uint64_t offset, take_small(lines));
    blocks_[offset] = {lines, 0};
    allocated_ += lines;
    std::memset(base_ + offset, 0, lines);
    return base_ + offset;
  }
  const std::uint64_t size = round_up(bytes, kHugePage);
  const auto offset = large_.take(size, kHugePage);
  if (!offset) return no_room(size);
  const Result<std::uint64_t> huge = take_pages(*offset, size);
  if (!huge.ok()) {
    large_.give(*offset, size);
    return huge.status();
  }
  clear_held(*offset, size);
  blocks_[*offset] = {size, *huge};
  huge_ += *huge;
  allocated_ += size;
  return base_ + *offset;
}

Result<void*> Heap::reserve(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > identity_.bytes) return no_room(bytes);
  // Never small, so that deallocate() takes the way of large blocks.
  const std::uint64_t size = round_up(std::max<std::uint64_t>(bytes, kLargeRequest), kHugePage);
  const auto offset = large_.take(size, kHugePage);
  if (!offset) return no_room(size);
  blocks_[*offset] = {size, 0, false};
  return base_ + *offset;
}

Result<std::byte*> Heap::board() {
  auto& board = reinterpret_cast<HeapMark*>(base_)->board;
  if (board.load(std::memory_order_acquire) == 0) {
    WEFT_ASSIGN(void* made, allocate(kBoardBytes));
    const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(made) - base_);
    std::uint64_t none = 0;
    if (!board.compare_exchange_strong(none, offset, std::memory_order_acq_rel)) deallocate(made);
  }
  return base_ + board.load(std::memory_order_acquire);
}

void Heap::deallocate(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(pointer) - base_);
  const auto found = blocks_.find(offset);
  invariant(found != blocks_.end(), "weft::deallocate of memory that weft::allocate did not give");
  const auto [size, huge, has_pages] = found->second;
  blocks_.erase(found);
  if (!has_pages) {
    announce_change(pointer, size);  // what it stood for may be registered
    return large_.give(offset, size);
  }
  allocated_ -= size;
  if (size < kLargeRequest) {
    small_.give(offset, size);  // the arena keeps its pages, and registrations of them stay right
    return;
  }
  announce_change(pointer, size);
  for (auto page = held_.lower_bound(offset); page != held_.end() && page->first < offset + size;
       ++page) {
    page->second.is_kept = true;
  }
  give_back(offset, size);
  huge_ -= huge;
  large_.give(offset, size);
}

void Heap::give_back(std::uint64_t offset, std::uint64_t bytes) {
  const auto punch = [this](std::uint64_t from, std::uint64_t to) {
    if (from == to) return;
    (void)fallocate(identity_.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(from), static_cast<off_t>(to - from));
  };
  std::uint64_t from = offset;
  for (auto page = held_.lower_bound(offset); page != held_.end() && page->first < offset + bytes;
       ++page) {
    punch(from, page->first);
    from = page->first + kHugePage;
  }
  punch(from, offset + bytes);
}

// Pages that come from the kernel are zero. Held pages may not be: they kept their content, or
// peers wrote to them while they were free.
void Heap::clear_held(std::uint64_t offset, std::uint64_t bytes) {
  for (auto page = held_.lower_bound(offset); page != held_.end() && page->first < offset + bytes;
       ++page) {
    page->second.is_kept = false;
    std::memset(base_ + page->first, 0, kHugePage);
  }
}

void Heap::hold(std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t page = offset / kHugePage * kHugePage; page < offset + bytes;
       page += kHugePage) {
    const auto [held, is_new] = held_.try_emplace(page);
    if (is_new) held->second.is_kept = large_.has(page);
    ++held->second.holds;
  }
}

void Heap::let_go(std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t page = offset / kHugePage * kHugePage; page < offset + bytes;
       page += kHugePage) {
    const auto held = held_.find(page);
    if (held == held_.end() || --held->second.holds != 0) continue;
    const bool is_kept = held->second.is_kept;
    held_.erase(held);
    if (is_kept) give_back(page, kHugePage);
  }
}

HeapUsage Heap::usage() {
  const std::lock_guard lock(mutex_);
  return HeapUsage{allocated_, huge_, backing_};
}

}  // namespace weft
