// division: splits idle workers into groups (sections 5.1 and 5.2). Pure, from given draws.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// Groups one after the other in one array, so that a division which is used again allocates nothing.
class Division {
 public:
  void clear();
  void reserve(std::size_t groups, std::size_t members);
  void add(std::span<const Rank> members);
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::span<const Rank> operator[](std::size_t group) const;

  // Deals the workers out in their order: `group_size` to each group, what is left over to the last
  // one. A single one that is left over joins the group before it, if there is one.
  void deal(std::span<const Rank> workers, std::size_t group_size);

 private:
  std::vector<Rank> members_;
  std::vector<std::size_t> ends_;
};

// The workers of one division.
struct Idle {
  std::span<Rank> workers;  // ascending; left in another order: sorted by machine, if there are any
  std::span<const int> machine;  // by rank; empty: no machines are known
  std::span<Rank> heads;         // room for one worker of each machine
  std::size_t group_size = 3;
};

// Random groups. With machines, the inter phase: one random worker of each machine is its head. Heads
// are grouped with heads, and the others with workers of their machine. If only one machine takes
// part, it has no head.
void divide(const Idle& idle, Draws& draws, Division& to);

// Where machine by machine begins in workers that are sorted by machine: calls visit(first, end).
template <typename Visit>
void visit_machines(std::span<const Rank> workers, std::span<const int> machine, Visit visit) {
  const auto machine_of = [&](std::size_t place) {
    return machine[static_cast<std::size_t>(workers[place])];
  };
  for (std::size_t first = 0, end = 0; first < workers.size(); first = end) {
    while (end < workers.size() && machine_of(end) == machine_of(first)) ++end;
    visit(first, end);
  }
}

}  // namespace weft
