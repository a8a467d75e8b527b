// The control blocks that the interfaces of this process have left, until they are reused.
#include "verbs/shm/control_block.h"

#include <algorithm>
#include <new>
#include <utility>

#include "verbs/shm/body.h"
#include "verbs/shm/left.h"

namespace weft::shm {
namespace {

struct LeftControlBlock {
  ControlBlock* block;
  std::vector<Ring*> rings;

  [[nodiscard]] bool is_looked_at() const {
    return std::ranges::any_of(
        rings, [](const Ring* ring) { return ring->left.load(std::memory_order_acquire) == 0; });
  }
};

// Begins the next generation, unless a peer uses this one or it is the last.
bool renew(ControlBlock& block) {
  std::uint64_t word = block.uses.load(std::memory_order_relaxed);
  const std::uint64_t next = generation_of(word) + 1;
  if (offset_of(word) != 0 || next == kGenerations) return false;
  return block.uses.compare_exchange_strong(word, next << kOffsetBits, std::memory_order_acquire);
}

void clear(ControlBlock& block) {
  block.rings.store(0, std::memory_order_relaxed);
  block.attention.store(0, std::memory_order_relaxed);
  block.closed.store(0, std::memory_order_relaxed);
  block.sleeping.store(kAwake, std::memory_order_relaxed);
  for (auto& word : block.askers) word.store(0, std::memory_order_relaxed);
}

ControlBlock* take_left() {
  const auto taken = Left<LeftControlBlock>::of_process().take(
      [](const LeftControlBlock& each) { return !each.is_looked_at() && renew(*each.block); });
  if (!taken) return nullptr;
  for (Ring* ring : taken->rings) {
    forget_ring(ring);
    deallocate(ring);
  }
  return taken->block;
}

}  // namespace

Result<ControlBlock*> take_control_block() {
  ControlBlock* block = take_left();
  if (block == nullptr) {
    WEFT_ASSIGN(void* memory, allocate(sizeof(ControlBlock)));
    block = new (memory) ControlBlock{};
  }
  clear(*block);
  block->bell.store(-1, std::memory_order_relaxed);
  return block;
}

std::uint64_t name_of(const ControlBlock& block) {
  const std::uint64_t word = block.uses.load(std::memory_order_relaxed);
  return heap_offset(&block, sizeof block) | generation_of(word) << kOffsetBits;
}

void leave_control_block(ControlBlock* block, std::vector<Ring*> rings) {
  Left<LeftControlBlock>::of_process().add({block, std::move(rings)});
}

bool enter(ControlBlock& block, std::uint64_t name) {
  std::uint64_t word = block.uses.load(std::memory_order_relaxed);
  do {
    if (generation_of(word) != generation_of(name)) return false;
  } while (!block.uses.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed));
  return true;
}

void leave(ControlBlock& block) {
  block.uses.fetch_sub(1, std::memory_order_release);
}

}  // namespace weft::shm
