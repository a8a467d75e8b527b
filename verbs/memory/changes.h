// Changes of memory: tells those who keep something about pages of this process, such as a
// registration, that the pages have gone. Internal to the module.
//
// A registration pins physical pages, not addresses. After munmap and mmap the same address means
// other pages, but a device that uses the old registration still reads and writes the old ones,
// which nobody else sees. So a range is announced before its pages go: by the heap itself, and by
// libucm for all other code of the process (announce_unmaps).
//
// An announcement may come from any thread, from within malloc, munmap or a signal handler. So it
// only sets marks: it takes no lock, allocates nothing and calls nothing. Each Watch has a table of
// ranges. Its owner writes the ranges; announcements read them and mark those that they touch. The
// owner checks one flag, and only then looks for marks. A mark lies with its range, so there is no
// queue that a busy allocator could overflow. An announcement costs two loads per range that is
// watched.
//
// Guarantee: if a range was watched before its pages were announced, it is marked before the
// announcement returns, hence before the address can mean other memory. If begin() or end() runs at
// the same moment as an announcement, the range may be marked for nothing or be missed. So the
// caller of begin() must know by other means that the pages stay until begin() has returned.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// Says that [address, address+bytes) is about to lose its pages, or has just got others. Safe in
// any thread, in signal handlers and after fork.
void announce_change(const void* address, std::size_t bytes) noexcept;

// Makes the calls of this process that unmap memory or give its pages back announce themselves:
// munmap, mmap and mremap, madvise, brk, shmdt. Only the first call does something. It patches the
// C library's code for the whole process, the host program included, so call it at setup and only
// if it was asked for. An error says why not all changes are announced: `unavailable` if libucm
// cannot be used, `system` if its hooks do not see the calls.
[[nodiscard]] Status announce_unmaps();

// The ranges that one owner wants to know about. All functions belong to the owner's thread.
class Watch {
 public:
  // More would make every munmap of the process slow: 1,024 ranges take about a microsecond.
  static constexpr std::size_t kMostRanges = 1024;

  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Watches [start, end). Returns the range's number, below kMostRanges; nothing if all are taken.
  [[nodiscard]] std::optional<std::size_t> begin(std::uintptr_t start, std::uintptr_t end);
  void end(std::size_t range);

  // Whether a range may be marked. One load.
  [[nodiscard]] bool changed() const { return table_->changed.load(std::memory_order_acquire); }
  // Returns the marked ranges and clears their marks.
  [[nodiscard]] std::vector<std::size_t> take_changed();

 private:
  friend void announce_change(const void*, std::size_t) noexcept;

  struct Entry {
    std::atomic<std::uintptr_t> start{0};  // an entry that ends at 0 is empty and overlaps nothing
    std::atomic<std::uintptr_t> end{0};
    std::atomic<bool> marked{false};
  };
  // Never freed, because an announcement may be reading it; the next Watch takes it over.
  struct Table {
    alignas(64) std::atomic<bool> changed{false};  // polled by the owner: a line of its own
    alignas(64) std::atomic<bool> owned{true};
    std::atomic<std::size_t> used{0};  // entries from here on were never used
    Table* next = nullptr;             // constant once the table is in the list
    std::array<Entry, kMostRanges> entries;

    void mark(std::uintptr_t start, std::uintptr_t end) noexcept;
  };

  static Table* own_table();
  static constinit std::atomic<Table*> tables_;

  Table* table_;
  std::vector<std::size_t> free_;  // numbers below `used` that are not taken
};

}  // namespace weft
