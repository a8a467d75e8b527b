// static_schedule: see the header.
#include "scheduler/partial/static_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace weft {
namespace {

// The local rank that meets the opposite machine in iteration 2.
int traveler_of(int locals) {
  return std::min(1, locals - 1);
}

std::optional<int> opposite(int machine, int machines) {
  const int paired = machines - machines % 2;
  if (machine >= paired) return std::nullopt;
  return (machine + paired / 2) % paired;
}

// With whom a local rank above 0 is paired in iteration 0.
std::optional<int> pair_from_the_top(int local, int locals) {
  const int from_top = locals - 1 - local;
  const int other = from_top % 2 == 0 ? local - 1 : local + 1;
  if (other == 0) return std::nullopt;
  return other;
}

// The local rank with which this one is paired in iteration 2.
std::optional<int> pair_of_ends(int local, int locals) {
  const int last = locals - 1;
  if (last <= traveler_of(locals) || (local != 0 && local != last)) return std::nullopt;
  return last - local;
}

}  // namespace

Result<std::vector<Rank>> static_group(std::uint64_t iteration, MachineShape shape, Rank rank) {
  const auto [machines, locals] = shape;
  if (machines < 1 || locals < 1 || locals > kMostRanks / machines) {
    return Status(Code::invalid_argument,
                  fmt::format("static groups of {} machines x {} ranks: 1 to {} ranks are possible",
                              machines, locals, kMostRanks));
  }
  if (rank < 0 || rank >= machines * locals) {
    return Status(
        Code::invalid_argument,
        fmt::format("static groups: rank {} is outside 0…{}", rank, machines * locals - 1), rank);
  }
  const int machine = rank / locals;
  const int local = rank % locals;
  std::vector<Rank> group = {rank};
  const auto add = [&](int other_machine, int other_local) {
    group.push_back(other_machine * locals + other_local);
  };
  const std::uint64_t phase = iteration % kStaticPeriod;
  if (phase % 2 == 1) {
    for (int other = 0; other < locals; ++other)
      if (other != local) add(machine, other);
  } else if (phase == 0 && local == 0) {
    for (int other = 0; other < machines; ++other)
      if (other != machine) add(other, 0);
  } else if (phase == 0) {
    if (const auto other = pair_from_the_top(local, locals)) add(machine, *other);
  } else if (local == traveler_of(locals)) {
    if (const auto other = opposite(machine, machines)) add(*other, local);
  } else if (const auto other = pair_of_ends(local, locals)) {
    add(machine, *other);
  }
  std::ranges::sort(group);
  return group;
}

}  // namespace weft
