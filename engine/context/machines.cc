// machines: see the header.
#include "engine/context/machines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <unordered_map>

#include "engine/context/hash.h"

namespace weft {
namespace {

constexpr int kMostToldMachines = 8;
// What a record may say: more than any machine has, and little enough to be added up.
constexpr int kFarthest = 1'000'000;
constexpr std::size_t kMostRails = 64;

// Takes the number that `text` begins with, and the blank after it.
template <typename Number>
bool take(std::string_view& text, Number& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || length == text.size() || text[length] != ' ') return false;
  text.remove_prefix(length + 1);
  return true;
}

// Takes the word that `text` begins with, and the blank after it.
std::optional<std::string_view> take_word(std::string_view& text) {
  const std::size_t length = text.find(' ');
  if (length == std::string_view::npos) return std::nullopt;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length + 1);
  return word;
}

std::string rails_text(const std::vector<RailDistance>& rails) {
  std::string text;
  for (const RailDistance& rail : rails)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", rail.far, rail.mbit_per_s);
  return text.empty() ? "-" : text;
}

// "1002:400000".
std::optional<RailDistance> rail_distance(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view digits, int& into) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  RailDistance rail;
  if (!number(text.substr(0, colon), rail.far) || !number(text.substr(colon + 1), rail.mbit_per_s))
    return std::nullopt;
  if (rail.far < 0 || rail.far > kFarthest) return std::nullopt;
  return rail;
}

bool take_rails(std::string_view& text, std::vector<RailDistance>& rails) {
  const std::optional<std::string_view> word = take_word(text);
  if (!word) return false;
  if (*word == "-") return true;
  for (std::size_t first = 0, comma = 0; comma != std::string_view::npos; first = comma + 1) {
    comma = word->find(',', first);
    const std::optional<RailDistance> rail = rail_distance(word->substr(first, comma - first));
    if (!rail || rails.size() == kMostRails) return false;
    rails.push_back(*rail);
  }
  return true;
}

using RailsOf = std::vector<RailDistance> MachineRecord::*;
using UsedOf = Machines::Used Machines::RailsOfRank::*;

int fewest(std::span<const MachineRecord> records, RailsOf rails) {
  std::size_t least = (records.front().*rails).size();
  for (const MachineRecord& record : records) least = std::min(least, (record.*rails).size());
  return static_cast<int>(least);
}

// Of ranks of one machine: which of the rails each uses; nothing: all, or these are not the same.
std::vector<std::vector<int>> shared_out(std::span<const MachineRecord> records,
                                         const std::vector<Rank>& ranks, RailsOf rails) {
  const auto record_of = [&records](Rank rank) -> const MachineRecord& {
    return records[static_cast<std::size_t>(rank)];
  };
  const MachineRecord& first = record_of(ranks.front());
  std::vector<std::vector<int>> far;
  for (const Rank rank : ranks) {
    const std::vector<RailDistance>& own = record_of(rank).*rails;
    if (own.size() != (first.*rails).size()) return {};
    std::vector<int>& row = far.emplace_back();
    for (const RailDistance& rail : own) row.push_back(rail.far);
  }
  // An interface of unknown rate has no share where others tell theirs: nobody should depend on it.
  std::vector<double> rates;
  for (const RailDistance& rail : first.*rails) rates.push_back(std::max(rail.mbit_per_s, 0));
  const auto is_told = [](double rate) { return rate > 0; };
  if (std::ranges::none_of(rates, is_told)) std::ranges::fill(rates, 1.0);
  return share_rails(far, rates, first.policy);
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

void share_out(std::span<const MachineRecord> records, RailsOf opened, UsedOf used,
               Machines& machines) {
  machines.rails.resize(records.size());
  for (const std::vector<Rank>& beside : machines.ranks) {
    std::vector<std::vector<int>> shares = shared_out(records, beside, opened);
    for (std::size_t place = 0; place < beside.size(); ++place) {
      const auto rank = static_cast<std::size_t>(beside[place]);
      Machines::Used& own = machines.rails[rank].*used;
      own.opened = static_cast<int>((records[rank].*opened).size());
      if (!shares.empty()) own.rails = std::move(shares[place]);
    }
  }
}

// Layout::near, or nothing.
std::vector<int> near_of(const Machines& machines, UsedOf kind) {
  std::vector<int> near;
  bool is_known = false;
  for (const Machines::RailsOfRank& rank : machines.rails) {
    const Machines::Used& own = rank.*kind;
    if (own.opened != machines.layout.rails) return {};
    near.push_back(own.rails.size() == 1 ? own.rails.front() : kAnyRail);
    is_known |= !own.rails.empty();
  }
  return is_known ? near : std::vector<int>();
}

}  // namespace

std::string MachineRecord::to_text() const {
  return fmt::format("{:x} {} {} {} {}", identity, weft::name(policy), rails_text(ib),
                     rails_text(ucx), name);
}

Result<MachineRecord> machine_record(std::string_view text) {
  MachineRecord record;
  std::string_view rest = text;
  const bool has_identity = take(rest, record.identity, 16);
  const Result<RailPolicy> policy = rail_policy(take_word(rest).value_or(""));
  if (!has_identity || !policy.ok() || !take_rails(rest, record.ib) ||
      !take_rails(rest, record.ucx)) {
    return Status(
        Code::mismatch,
        fmt::format("'{}' does not describe a machine: other versions of Weft in one job?",
                    text.substr(0, 80)));
  }
  record.policy = *policy;
  record.name = rest;
  return record;
}

MachineRecord this_machine(const std::string& host) {
  if (!host.empty()) return {fnv1a(host), {}, {}, {}, host};
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return {fnv1a(std::string(name) + boot), {}, {}, {}, name};
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

std::vector<int> Machines::used_between(Rank rank, Rank peer, Used RailsOfRank::*kind) const {
  const Used& own = rails[static_cast<std::size_t>(rank)].*kind;
  const Used& theirs = rails[static_cast<std::size_t>(peer)].*kind;
  if (own.opened != theirs.opened || theirs.rails.empty()) return own.rails;
  if (own.rails.empty()) return theirs.rails;
  std::vector<int> both;
  std::ranges::set_intersection(own.rails, theirs.rails, std::back_inserter(both));
  return both;
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
  share_out(records, &MachineRecord::ib, &Machines::RailsOfRank::ib, machines);
  share_out(records, &MachineRecord::ucx, &Machines::RailsOfRank::ucx, machines);
  const bool over_ib = fewest(records, &MachineRecord::ib) > 0;
  machines.layout.rails =
      std::max(fewest(records, over_ib ? &MachineRecord::ib : &MachineRecord::ucx), 1);
  machines.layout.near =
      near_of(machines, over_ib ? &Machines::RailsOfRank::ib : &Machines::RailsOfRank::ucx);
  return machines;
}

}  // namespace weft
