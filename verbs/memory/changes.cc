// Marking ranges without a lock, and the tables that outlive their owners.
#include "verbs/memory/changes.h"

#include <algorithm>

namespace weft {

constinit std::atomic<Watch::Table*> Watch::tables_{nullptr};

void announce_change(const void* address, std::size_t bytes) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = start + std::min<std::uintptr_t>(bytes, ~start);
  if (start == end) return;
  for (Watch::Table* table = Watch::tables_.load(std::memory_order_acquire); table != nullptr;
       table = table->next) {
    table->mark(start, end);
  }
}

// While the owner is changing an entry, its start and its end may belong to different ranges; that
// can set a mark for nothing. The flag is stored last, so that an owner that sees the flag sees the
// mark.
void Watch::Table::mark(std::uintptr_t start, std::uintptr_t end) noexcept {
  const std::size_t most = used.load(std::memory_order_acquire);
  bool any = false;
  for (std::size_t i = 0; i < most; ++i) {
    Entry& entry = entries[i];
    if (entry.start.load(std::memory_order_relaxed) >= end) continue;
    if (entry.end.load(std::memory_order_relaxed) <= start) continue;
    entry.marked.store(true, std::memory_order_relaxed);
    any = true;
  }
  if (any) changed.store(true, std::memory_order_release);
}

Watch::Table* Watch::own_table() {
  for (Table* table = tables_.load(std::memory_order_acquire); table != nullptr;
       table = table->next) {
    if (!table->owned.exchange(true, std::memory_order_acquire)) return table;
  }
  auto* made = new Table;
  made->next = tables_.load(std::memory_order_relaxed);
  while (!tables_.compare_exchange_weak(made->next, made, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  return made;
}

Watch::Watch() : table_(own_table()) {
  free_.reserve(kMostRanges);
  for (std::size_t i = table_->used.load(std::memory_order_relaxed); i > 0; --i) {
    free_.push_back(i - 1);
  }
}

Watch::~Watch() {
  for (std::size_t i = 0; i < kMostRanges; ++i) {
    table_->entries[i].end.store(0, std::memory_order_relaxed);
  }
  table_->owned.store(false, std::memory_order_release);
}

std::optional<std::size_t> Watch::begin(std::uintptr_t start, std::uintptr_t end) {
  const std::size_t used = table_->used.load(std::memory_order_relaxed);
  if (free_.empty() && used == kMostRanges) return std::nullopt;
  const std::size_t range = free_.empty() ? used : free_.back();
  Entry& entry = table_->entries[range];
  entry.marked.store(false, std::memory_order_relaxed);
  entry.start.store(start, std::memory_order_relaxed);
  entry.end.store(end, std::memory_order_relaxed);
  if (free_.empty()) {
    table_->used.store(used + 1, std::memory_order_release);
  } else {
    free_.pop_back();
  }
  return range;
}

void Watch::end(std::size_t range) {
  table_->entries[range].end.store(0, std::memory_order_relaxed);
  free_.push_back(range);
}

// The flag is cleared before the marks are read. If a mark is set after that, the flag is set
// again.
std::vector<std::size_t> Watch::take_changed() {
  std::vector<std::size_t> ranges;
  if (!table_->changed.exchange(false, std::memory_order_acquire)) return ranges;
  const std::size_t used = table_->used.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < used; ++i) {
    Entry& entry = table_->entries[i];
    if (entry.end.load(std::memory_order_relaxed) == 0) continue;
    if (entry.marked.exchange(false, std::memory_order_relaxed)) ranges.push_back(i);
  }
  return ranges;
}

}  // namespace weft
