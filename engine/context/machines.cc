// machines: see the header.
#include "engine/context/machines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <unordered_map>

#include "engine/context/hash.h"

namespace weft {
namespace {

constexpr int kMostToldMachines = 8;

// Takes the number that `text` begins with, and the blank after it.
template <typename Number>
bool take(std::string_view& text, Number& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || length == text.size() || text[length] != ' ') return false;
  text.remove_prefix(length + 1);
  return true;
}

int fewest(std::span<const MachineRecord> records, int MachineRecord::*rails) {
  return (*std::ranges::min_element(records, {}, rails)).*rails;
}

// "rank 3", "ranks 0-2, 5".
std::string ranks_text(std::span<const Rank> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first != 0) text += ", ";
    text += last == first ? fmt::format("{}", ranks[first])
                          : fmt::format("{}-{}", ranks[first], ranks[last]);
  }
  return text;
}

}  // namespace

std::string MachineRecord::to_text() const {
  return fmt::format("{:x} {} {} {}", identity, ib_rails, ucx_rails, name);
}

Result<MachineRecord> machine_record(std::string_view text) {
  MachineRecord record;
  std::string_view rest = text;
  if (!take(rest, record.identity, 16) || !take(rest, record.ib_rails, 10) ||
      !take(rest, record.ucx_rails, 10) || record.ib_rails < 0 || record.ucx_rails < 0) {
    return Status(
        Code::mismatch,
        fmt::format("'{}' does not describe a machine: other versions of Weft in one job?",
                    text.substr(0, 80)));
  }
  record.name = rest;
  return record;
}

MachineRecord this_machine(const std::string& host) {
  if (!host.empty()) return {fnv1a(host), 0, 0, host};
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return {fnv1a(std::string(name) + boot), 0, 0, name};
}

int Machines::place_of(Rank rank) const {
  const std::vector<Rank>& beside = ranks_beside(rank);
  return static_cast<int>(std::ranges::lower_bound(beside, rank) - beside.begin());
}

bool Machines::is_homogeneous() const {
  return std::ranges::all_of(
      ranks, [this](const auto& each) { return each.size() == ranks.front().size(); });
}

std::string Machines::describe() const {
  std::string text = fmt::format("{} machine{}, {} rail{}: ", count(), count() == 1 ? "" : "s",
                                 layout.rails, layout.rails == 1 ? "" : "s");
  const int told = std::min(count(), kMostToldMachines);
  for (int machine = 0; machine < told; ++machine) {
    const auto at = static_cast<std::size_t>(machine);
    text += fmt::format("{}{} ({})", machine == 0 ? "" : ", ", names[at], ranks_text(ranks[at]));
  }
  if (told < count()) text += fmt::format(" and {} more", count() - told);
  return text;
}

Machines machines_of(std::span<const MachineRecord> records) {
  Machines machines;
  std::unordered_map<std::uint64_t, int> numbers;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const auto [known, is_new] = numbers.emplace(records[rank].identity, machines.count());
    if (is_new) {
      machines.ranks.emplace_back();
      machines.names.push_back(records[rank].name);
    }
    machines.layout.machine.push_back(known->second);
    machines.ranks[static_cast<std::size_t>(known->second)].push_back(static_cast<Rank>(rank));
  }
  const int ib = fewest(records, &MachineRecord::ib_rails);
  machines.layout.rails = ib > 0 ? ib : std::max(fewest(records, &MachineRecord::ucx_rails), 1);
  return machines;
}

}  // namespace weft
