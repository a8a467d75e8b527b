// board: what a process tells the others of its machine of its GPUs, in the board of its heap. Internal
// to the module.
//
// The owner alone writes it. What it offers, answers and exports is written before the word that shows
// it: `state` or `id`. A device alias's entry changes only while no peer may read that device alias.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "verbs/cuda/driver.h"
#include "verbs/memory/memory.h"

namespace weft::cuda {

struct Board {
  static constexpr std::uint32_t kLayout = 1;
  static constexpr std::size_t kGpus = 16, kAnswers = 512, kExports = 128, kAliases = 512;

  // A GPU that the process uses, and a small allocation on it to try with.
  struct Gpu {
    DeviceId id;
    IpcHandle probe;
    std::atomic<std::uint32_t> state;  // 1: filled in
  };
  // What the process has found when it tried a peer's GPU.
  struct Answer {
    std::uint64_t owner;  // nonce of the peer's heap
    std::uint32_t gpu;    // on the peer's board
    std::atomic<std::uint32_t> state;
  };
  static constexpr std::uint32_t kReads = 1, kCannotRead = 2;
  // An allocation.
  struct Export {
    IpcHandle handle;
    std::uint32_t gpu;              // on this board
    std::atomic<std::uint64_t> id;  // never the same again; 0: none
  };
  // A device alias. Others look for one while the owner writes another: `version` is odd meanwhile, and
  // who reads looks whether it is the same before and after. Each store is behind the one before it.
  struct Meaning {
    std::uint64_t begin;  // offset in the heap; 0: none
    std::uint64_t bytes;
    std::uint64_t pointer;  // in the owner's process
    std::uint64_t offset;   // in the allocation
    std::uint64_t id;       // of the export
    std::uint32_t exported;
    std::uint32_t gpu;
  };
  class Entry {
   public:
    // The owner's.
    void set(const Meaning& meaning) {
      const std::uint64_t before = version_.load(std::memory_order_relaxed);
      version_.store(before + 1, std::memory_order_relaxed);
      begin_.store(meaning.begin, std::memory_order_release);
      bytes_.store(meaning.bytes, std::memory_order_release);
      pointer_.store(meaning.pointer, std::memory_order_release);
      offset_.store(meaning.offset, std::memory_order_release);
      id_.store(meaning.id, std::memory_order_release);
      exported_.store(meaning.exported, std::memory_order_release);
      gpu_.store(meaning.gpu, std::memory_order_release);
      version_.store(before + 2, std::memory_order_release);
    }
    // One that is being written has no meaning yet.
    [[nodiscard]] Meaning get() const {
      const std::uint64_t before = version_.load(std::memory_order_acquire);
      const Meaning found{
          begin_.load(std::memory_order_acquire),   bytes_.load(std::memory_order_acquire),
          pointer_.load(std::memory_order_acquire), offset_.load(std::memory_order_acquire),
          id_.load(std::memory_order_acquire),      exported_.load(std::memory_order_acquire),
          gpu_.load(std::memory_order_acquire)};
      const bool is_whole = before % 2 == 0 && version_.load(std::memory_order_relaxed) == before;
      return is_whole ? found : Meaning{};
    }

   private:
    std::atomic<std::uint64_t> version_, begin_, bytes_, pointer_, offset_, id_;
    std::atomic<std::uint32_t> exported_, gpu_;
  };

  std::atomic<std::uint32_t> layout;  // kLayout, once a GPU is offered
  std::array<Gpu, kGpus> gpus;
  std::array<Answer, kAnswers> answers;
  std::array<Export, kExports> exports;
  std::array<Entry, kAliases> entries;
  std::atomic<std::uint32_t> entry_count;  // no entry beyond has ever been used
};
static_assert(sizeof(Board) <= kBoardBytes);

}  // namespace weft::cuda
