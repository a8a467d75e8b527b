// division: see the header.
#include "scheduler/partial/division.h"

#include <algorithm>
#include <utility>

namespace weft {

void Division::clear() {
  members_.clear();
  ends_.clear();
}

void Division::reserve(std::size_t groups, std::size_t members) {
  ends_.reserve(groups);
  members_.reserve(members);
}

void Division::add(std::span<const Rank> members) {
  members_.insert(members_.end(), members.begin(), members.end());
  ends_.push_back(members_.size());
}

std::span<const Rank> Division::operator[](std::size_t group) const {
  const std::size_t begin = group == 0 ? 0 : ends_[group - 1];
  return std::span(members_).subspan(begin, ends_[group] - begin);
}

void Division::deal(std::span<const Rank> workers, std::size_t group_size) {
  while (!workers.empty()) {
    const std::size_t taken =
        workers.size() == group_size + 1 ? group_size + 1 : std::min(group_size, workers.size());
    add(workers.first(taken));
    workers = workers.subspan(taken);
  }
}

void divide(const Idle& idle, Draws& draws, Division& to) {
  const std::span<Rank> workers = idle.workers;
  if (idle.machine.empty()) {
    draws.shuffle(workers);
    return to.deal(workers, idle.group_size);
  }
  std::ranges::sort(workers, {}, [&](Rank rank) {
    return std::pair(idle.machine[static_cast<std::size_t>(rank)], rank);
  });
  std::size_t heads = 0;
  visit_machines(workers, idle.machine, [&](std::size_t first, std::size_t end) {
    draws.shuffle(workers.subspan(first, end - first));
    idle.heads[heads++] = workers[first];
  });
  const std::size_t led = heads > 1 ? 1 : 0;  // workers of a machine that are its head
  if (led == 1) {
    draws.shuffle(idle.heads.first(heads));
    to.deal(idle.heads.first(heads), idle.group_size);
  }
  visit_machines(workers, idle.machine, [&](std::size_t first, std::size_t end) {
    to.deal(workers.subspan(first + led, end - first - led), idle.group_size);
  });
}

}  // namespace weft
