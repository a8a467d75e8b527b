// entrance: ranks that have come back and are let in (Context::admit).
//
//   lowest member of the core ── put("entrance") ──► the job's store ◄── get ── whoever leaves that core
//
// The store holds at most one entrance for each core, under a key of the core, and a key is written once. Whoever
// leaves a core, for an entrance or because of a death, looks there, and again while it waits for
// others in the next core. So all go the same way, although ranks hear of deaths at different times: a core is
// complete only when each of its ranks has looked. Internal to the module.
#pragma once

#include <weft/graph.h>
#include <weft/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/core.h"

namespace weft {

// Key of an entrance among those of the core that is left.
inline constexpr const char* kEntranceKey = "entrance";
// Key in the job's store under which the rank finds the entrance that lets it in, to the context of that number.
[[nodiscard]] std::string invitation_key(const Incarnation& newcomer, std::uint16_t context);

// Key under which a rank says that it waits in admit().
[[nodiscard]] std::string waiting_key(const Incarnation& outside, std::uint16_t context);

struct Newcomer {
  Incarnation who;
  Rank giver = kNoRank;  // who gives it the state: its first in-neighbor of those that are there
};

struct Entrance {
  int number = 0;                // how often ranks were let in before, + 1
  std::uint64_t resumed_at = 0;  // the call of all ranks that comes after it
  std::vector<Incarnation> members;
  std::vector<Newcomer> newcomers;

  [[nodiscard]] std::string to_text() const;
  // `size`: of the job.
  [[nodiscard]] static Result<Entrance> from_text(std::string_view text, int size);
};

// The state travels tensor by tensor, after a list of their sizes, types and checksums (CRC32C). The rank
// that takes it compares them with its own tensors. Tensors are in host memory.
[[nodiscard]] Status check_state(std::span<const Output> state);
Status give_state(Context::Core& core, Rank to, std::span<const Output> state);
Status take_state(Context::Core& core, Rank from, std::span<const Output> state);

// The graph, as it was set by all.
struct GivenGraph {
  Graph graph;
  bool weighted = false;
};
Status give_graph(Context::Core& core, Rank to, const GivenGraph& given);
Result<GivenGraph> take_graph(Context::Core& core, Rank from, int size);

}  // namespace weft
