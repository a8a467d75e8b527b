// The halls that the interfaces of this process have left, until they are reused.
#include "verbs/shm/hall.h"

#include <algorithm>
#include <new>
#include <utility>

#include "verbs/shm/body.h"
#include "verbs/shm/left.h"

namespace weft::shm {
namespace {

struct LeftHall {
  Hall* hall;
  std::vector<Ring*> rings;

  [[nodiscard]] bool is_looked_at() const {
    return std::ranges::any_of(
        rings, [](const Ring* ring) { return ring->left.load(std::memory_order_acquire) == 0; });
  }
};

// Begins the next generation, unless a peer uses this one or it is the last.
bool renew(Hall& hall) {
  std::uint64_t word = hall.uses.load(std::memory_order_relaxed);
  const std::uint64_t next = generation_of(word) + 1;
  if (offset_of(word) != 0 || next == kGenerations) return false;
  return hall.uses.compare_exchange_strong(word, next << kOffsetBits, std::memory_order_acquire);
}

void clear(Hall& hall) {
  hall.rings.store(0, std::memory_order_relaxed);
  hall.attention.store(0, std::memory_order_relaxed);
  hall.closed.store(0, std::memory_order_relaxed);
  hall.sleeping.store(kAwake, std::memory_order_relaxed);
  for (auto& word : hall.askers) word.store(0, std::memory_order_relaxed);
}

Hall* take_left() {
  const auto taken = Left<LeftHall>::of_process().take(
      [](const LeftHall& each) { return !each.is_looked_at() && renew(*each.hall); });
  if (!taken) return nullptr;
  for (Ring* ring : taken->rings) {
    forget_ring(ring);
    deallocate(ring);
  }
  return taken->hall;
}

}  // namespace

Result<Hall*> take_hall() {
  Hall* hall = take_left();
  if (hall == nullptr) {
    WEFT_ASSIGN(void* memory, allocate(sizeof(Hall)));
    hall = new (memory) Hall{};
  }
  clear(*hall);
  hall->bell.store(-1, std::memory_order_relaxed);
  return hall;
}

std::uint64_t name_of(const Hall& hall) {
  const std::uint64_t word = hall.uses.load(std::memory_order_relaxed);
  return heap_offset(&hall, sizeof hall) | generation_of(word) << kOffsetBits;
}

void leave_hall(Hall* hall, std::vector<Ring*> rings) {
  Left<LeftHall>::of_process().add({hall, std::move(rings)});
}

bool enter(Hall& hall, std::uint64_t name) {
  std::uint64_t word = hall.uses.load(std::memory_order_relaxed);
  do {
    if (generation_of(word) != generation_of(name)) return false;
  } while (!hall.uses.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed));
  return true;
}

void leave(Hall& hall) {
  hall.uses.fetch_sub(1, std::memory_order_release);
}

}  // namespace weft::shm
