// Making the heap: an unnamed file, its mapping, the commitment of pages, huge pages where the
// kernel gives them.
#include "verbs/memory/heap.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "verbs/memory/changes.h"

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

// No name is ever linked, so nothing can be left behind; peers open it through /proc/PID/fd.
Result<int> unnamed_file(const std::string& directory) {
  const int fd = directory.empty()
                     ? memfd_create("weft", MFD_CLOEXEC)
                     : ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  return system_error(directory.empty() ? std::string("creating the shared heap (memfd)")
                                        : "creating the shared heap in " + directory,
                      errno);
}

}  // namespace

Result<std::unique_ptr<Heap>> Heap::open(const HeapOptions& options) {
  std::unique_ptr<Heap> heap(new Heap);
  heap->options_ = options;
  HeapIdentity& identity = heap->identity_;
  identity.process = getpid();
  identity.bytes =
      round_up(options.address_bytes != 0 ? options.address_bytes : physical_memory(), kHugePage);
  WEFT_ASSIGN(identity.file, unnamed_file(options.directory));
  if (getrandom(&identity.nonce, sizeof identity.nonce, 0) != sizeof identity.nonce) {
    return system_error("drawing the heap's nonce", errno);
  }
  if (fchmod(identity.file, 0600) != 0) return system_error("protecting the shared heap", errno);
  if (ftruncate(identity.file, static_cast<off_t>(identity.bytes)) != 0) {
    return system_error(
        fmt::format("giving the shared heap {} MiB of address space", identity.bytes >> 20), errno);
  }
  // Reserve one huge page more than needed, so that the base can be aligned for huge mappings.
  void* reserved = mmap(nullptr, identity.bytes + kHugePage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return system_error(fmt::format("mapping {} MiB for the shared heap", identity.bytes >> 20),
                        errno);
  }
  auto* aligned =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(reserved), kHugePage));
  if (mmap(aligned, identity.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           identity.file, 0) == MAP_FAILED) {
    return system_error("mapping the shared heap", errno);
  }
  heap->base_ = aligned;
  heap->large_.give(0, identity.bytes);
  WEFT_ASSIGN(void* mark, heap->allocate(sizeof(HeapMark)));
  invariant(mark == heap->base_, "the heap's mark is its first allocation");
  *static_cast<HeapMark*>(mark) = HeapMark{HeapMark::kMagic, identity.nonce};
  return heap;
}

Heap::~Heap() {
  if (base_ != nullptr) munmap(base_, identity_.bytes);
  if (identity_.file >= 0) close(identity_.file);
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
      fmt::format("weft::allocate: reserving {} KiB of shared memory ({})", bytes >> 10,
                  options_.directory.empty() ? std::string("memfd") : options_.directory),
      error);
}

std::uint64_t Heap::take_huge_pages(std::uint64_t offset, std::uint64_t bytes) {
  if (options_.huge_pages == HugePages::off) return 0;
  (void)madvise(base_ + offset, bytes, MADV_HUGEPAGE);
  return madvise(base_ + offset, bytes, MADV_COLLAPSE) == 0 ? bytes : 0;
}

// A packet of a page then lies in one: a device that maps page by page reads and writes it at once.
Result<std::uint64_t> Heap::take_small(std::uint64_t bytes) {
  const std::uint64_t alignment = bytes < kPage ? kCacheLine : kPage;
  if (const auto offset = small_.take(bytes, alignment)) return *offset;
  const auto arena = large_.take(kHugePage, kHugePage);
  if (!arena)
    return Status(Code::exhausted, "weft::allocate: the shared heap's address space is full");
  if (Status status = commit(*arena, kHugePage); !status.ok()) {
    large_.give(*arena, kHugePage);
    return status;
  }
  clear_held(*arena, kHugePage);
  huge_ += take_huge_pages(*arena, kHugePage);
  small_.give(*arena, kHugePage);
  return *small_.take(bytes, alignment);
}

Result<void*> Heap::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > identity_.bytes) {
    return Status(Code::exhausted,
                  fmt::format("weft::allocate: {} bytes exceed the shared heap of {} MiB "
                              "(WEFT_HEAP_MIB sets it)",
                              bytes, identity_.bytes >> 20));
  }
  // The rounded size decides between small and large, here and in deallocate(), which knows no
  // other.
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
  if (!offset) {
    return Status(Code::exhausted,
                  fmt::format("weft::allocate: no {} MiB left in the shared heap of {} MiB "
                              "(WEFT_HEAP_MIB sets it)",
                              size >> 20, identity_.bytes >> 20));
  }
  if (Status status = commit(*offset, size); !status.ok()) {
    large_.give(*offset, size);
    return status;
  }
  clear_held(*offset, size);
  const std::uint64_t huge = take_huge_pages(*offset, size);
  blocks_[*offset] = {size, huge};
  huge_ += huge;
  allocated_ += size;
  return base_ + *offset;
}

void Heap::deallocate(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(pointer) - base_);
  const auto found = blocks_.find(offset);
  invariant(found != blocks_.end(), "weft::deallocate of memory that weft::allocate did not give");
  const auto [size, huge] = found->second;
  blocks_.erase(found);
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

// What is taken from the kernel is zero; what was kept, or was free and peers could write to, may not be.
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
  return HeapUsage{allocated_, huge_, options_.directory.empty() ? "memfd" : options_.directory};
}

}  // namespace weft
