// board: what a process tells the others of its machine of its GPUs, in the board of its heap. Internal
// to the module.
//
// The owner alone writes it. Each entry is written before the word that shows it: `state`, `id` or
// `begin`. An entry of a stand-in changes only while no peer may read the stand-in.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "verbs/cuda/driver.h"
#include "verbs/memory/memory.h"

namespace weft::cuda {

struct Board {
  static constexpr std::uint32_t kLayout = 1;
  static constexpr std::size_t kGpus = 16, kAnswers = 512, kExports = 128, kStandIns = 512;

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
  struct Entry {
    std::uint64_t bytes;
    std::uint64_t pointer;  // in the owner's process
    std::uint64_t offset;   // in the allocation
    std::uint64_t id;       // of the export
    std::uint32_t exported;
    std::uint32_t gpu;
    std::atomic<std::uint64_t> begin;  // offset in the heap; 0: none
  };

  std::atomic<std::uint32_t> layout;  // kLayout, once a GPU is offered
  std::array<Gpu, kGpus> gpus;
  std::array<Answer, kAnswers> answers;
  std::array<Export, kExports> exports;
  std::array<Entry, kStandIns> entries;
  std::atomic<std::uint32_t> entry_count;  // no entry beyond has ever been used
};
static_assert(sizeof(Board) <= kBoardBytes);

}  // namespace weft::cuda
