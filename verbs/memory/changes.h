// Changes of memory: which pages of this process have gone, told to those who keep something about
// them. Internal to the module.
//
// A registration pins physical pages, not addresses: after munmap and mmap the same address is
// other memory, and a device that uses the old registration reads and writes pages that nobody
// sees. So whoever takes pages away announces the range first: the heap itself, and libucm for the
// calls of everybody else (announce_unmaps).
//
// An announcement comes from any thread, from within malloc, munmap or a signal handler. It may
// therefore only mark: it takes no lock, allocates nothing and calls nothing. Each Watch has a
// table of ranges, written by its owner and read by announcements, and marks in it; the owner sees
// one flag and then looks for the marks. Marks lie with the ranges, so there is no queue that a
// busy allocator could overflow. An announcement costs two loads per range that anybody watches.
//
// What is guaranteed: a range that was watched before its pages were announced is marked before the
// announcement returns, hence before the address can mean other memory. A range that is being
// watched or forgotten in the same moment may be marked for nothing or be missed; who begins to
// watch must know by other means that the pages stay until begin() has returned.
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
// munmap, mmap and mremap, madvise, brk, shmdt. Done once; it patches the C library's code for the
// whole process, host included, so call it at setup and only where it was asked for. Not ok: why not all changes are announced; unavailable without libucm, system where
// its hooks see nothing.
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

  // Watches [start, end); the range's number, below kMostRanges, or nothing when all are taken.
  [[nodiscard]] std::optional<std::size_t> begin(std::uintptr_t start, std::uintptr_t end);
  void end(std::size_t range);

  // Whether a range may be marked. One load.
  [[nodiscard]] bool changed() const { return table_->changed.load(std::memory_order_acquire); }
  // The marked ranges; each is told once.
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
