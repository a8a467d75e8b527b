// cycle: the messages of one agreement, at one rank.
//
//   contribution of each rank ── exchange ──► the same outcome on all ranks ──► (only if a rank asks for it)
//                                                                              requests to rank 0, decisions back
//
// The exchange is recursive doubling over the largest power of two p <= n: in round k rank r swaps
// what it knows with rank r ^ 2^k. Rank p + i gives its contribution to rank i first, which calls for
// it, and gets the outcome from it. Requests go up a tree of ranks to rank 0, and decisions down.
// Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/negotiate/bits.h"
#include "scheduler/negotiate/codec.h"
#include "scheduler/negotiate/coordinator.h"

namespace weft {

// A control message, to be sent to a rank.
struct ControlMessage {
  Rank to = kNoRank;
  std::vector<std::byte> bytes;
};

namespace negotiate {

// What a rank contributes, and what all come to know.
struct Contribution {
  bool has_new = false;    // requests for rank 0, or a join. Of all: some rank has
  bool inquires = false;   // some rank wants to know what all wait for
  Bits pending;            // of all: pending everywhere
  std::uint64_t told = 0;  // what rank 0 tells all ranks in this cycle; 0: nothing
  // Names that a rank has submitted with another shape than the cache has; empty: none.
  Bits invalid;

  void merge(const Contribution& other);
};

// What a message is.
enum class Kind : std::uint8_t { bits = 1, requests = 2, decisions = 3, call = 4 };

// How many ranks report to one in the tree: up to 64 ranks, all report to rank 0.
inline constexpr int kFanOut = 64;
[[nodiscard]] constexpr Rank parent_of(Rank rank) {
  return (rank - 1) / kFanOut;
}
[[nodiscard]] std::vector<Rank> children_of(Rank rank, int size);

// One step of the exchange at one rank.
struct Step {
  Rank peer;
  bool sends;
  bool receives;
  bool is_outcome;  // what is received replaces what is known
  bool calls;       // the peer may not know of the cycle
};
[[nodiscard]] std::vector<Step> exchange_steps(Rank rank, int size);

// A message that has arrived.
struct Arrived {
  std::uint64_t cycle;
  Kind kind;
  Rank from;
  std::vector<std::byte> body;
};

void write(Writer& writer, const Contribution& contribution);
// `places`: how many bits there must be.
[[nodiscard]] Contribution read_contribution(Reader& reader, std::size_t places);
void write(Writer& writer, const Told& told);
[[nodiscard]] Told read_told(Reader& reader, int ranks);
void write(Writer& writer, const Decision& decision);
[[nodiscard]] Decision read_decision(Reader& reader, int ranks);

}  // namespace negotiate
}  // namespace weft
