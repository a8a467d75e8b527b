// Floor: the least that a collective costs on this machine. It does only what no implementation can
// avoid.
//
//  - Small messages (up to kBatchedBytes) are exchanged back to back. Each rank copies its input
//    into one of two slots of its board, announces it with one word, waits for the words of its
//    sources and combines.
//  - Larger messages are combined straight from the sources' buffers. The caller's Meeting
//    guarantees that these are written; nothing else happens.
//  - Memory that cannot be mapped is read with process_vm_readv, a cache-sized piece of every
//    source at a time.
//  - An allreduce of larger messages reduces one share at each rank, meets, and collects the
//    shares.
//
// There is one Floor per rank, used by the rank's thread. It owns only scratch memory. All ranks
// make the same calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/kernels/kernels.h"
#include "tools/limits/laps.h"
#include "tools/limits/sight.h"
#include "tools/limits/workload.h"

namespace weft {

// What each rank shows to the others for small messages: two slots, used in turn. Each has a word
// with the number of the message, room for a message that fits in the word's cache line, and room
// for a larger one.
struct FloorBoard {
  static constexpr std::size_t kInline = 56;
  struct Slot {
    alignas(64) std::atomic<std::uint64_t> number;
    std::byte with_number[kInline];
    std::byte payload[kBatchedBytes];
  };
  Slot slots[2];
};
static_assert(sizeof(FloorBoard::Slot) == 64 + kBatchedBytes);

// Outputs below this size stay in the caches with both kinds of stores; streaming stores are never
// faster for them.
inline constexpr std::size_t kStreamingFrom = 256 << 10;

class Floor {
 public:
  struct Spec {
    Collective collective = Collective::neighbor_allreduce;
    DataType type = DataType::f32;
    std::size_t count = 0;  // elements of an input
    Rank rank = 0;
  };
  // The memory of each rank. All ranks map the boards.
  struct Places {
    std::vector<Sight> boards;
    std::vector<Sight> inputs;
    std::vector<Sight> outputs;
  };

  Floor(const Spec& spec, Recipe recipe, Places places, Meeting& meeting);

  // Runs the collective `times` times. If `streaming`, with stores that bypass the caches.
  Status run(int times, bool streaming);

 private:
  Status exchange_small();
  Status read_large(bool streaming);
  Status allreduce_by_shares(bool streaming);
  Status combine_range(std::size_t first, std::size_t count, bool streaming);
  Status concatenate(bool streaming);
  Status copy(const Sight& from, std::size_t first, std::size_t count, std::byte* to,
              bool streaming);
  Status wait_for(Rank rank, std::uint64_t number) const;
  [[nodiscard]] FloorBoard& board(Rank rank) const;
  [[nodiscard]] std::byte* output() const;

  Spec spec_;
  Recipe recipe_;
  Places places_;
  Meeting* meeting_;
  CombineFunction combine_;
  std::size_t element_bytes_;
  std::vector<Term> terms_;
  std::vector<std::byte> scratch_;  // pieces of private memory, one per source
  std::uint64_t number_ = 0;        // of the last small message, also if another Floor put it there
};

}  // namespace weft
