// machines: see the header.
#include "engine/job/machines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "engine/config/config.h"

namespace weft {
namespace {

constexpr int kMostToldMachines = 8;
// Bounds for the values of a record. They are more than any machine has, and small enough that sums
// do not overflow.
constexpr int kFarthest = 1'000'000;
constexpr std::size_t kMostRails = 64;
constexpr int kMostCores = 65'536;
// The kinds of networks. Two ranks that have both use the first.
constexpr std::string_view kKinds[] = {"ib", "ucx"};

// Removes the text before the next `end`, and `end` itself, and returns the text. Returns nothing
// if there is no `end`.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const std::size_t length = text.find(end);
  if (length == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(length + 1);
  return taken;
}

template <typename Number>
bool read(std::string_view digits, Number& number, int base = 10) {
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  return error == std::errc() && end == digits.data() + digits.size();
}

// Reads a line such as "ib 1002 400000 mlx5_0 10.0.0.0/24".
std::optional<RailRecord> rail_record(std::string_view line) {
  RailRecord rail;
  rail.kind = take_until(line, ' ').value_or("");
  if (!read(take_until(line, ' ').value_or(""), rail.far)) return std::nullopt;
  if (rail.far < 0 || rail.far > kFarthest) return std::nullopt;
  if (!read(take_until(line, ' ').value_or(""), rail.mbit_per_s)) return std::nullopt;
  rail.interface = take_until(line, ' ').value_or("");
  rail.rail = line;
  if (rail.kind.empty() || rail.interface.empty()) return std::nullopt;
  return rail;
}

// By rank: indices of rails in its record.
using Places = std::vector<std::vector<int>>;

std::vector<int> places_of(const MachineRecord& record, std::string_view kind) {
  std::vector<int> places;
  for (std::size_t place = 0; place < record.rails.size(); ++place) {
    if (record.rails[place].kind == kind) places.push_back(static_cast<int>(place));
  }
  return places;
}

const RailRecord& rail_at(const MachineRecord& record, int place) {
  return record.rails[static_cast<std::size_t>(place)];
}

// The networks of one kind that several machines have.
std::unordered_set<std::string_view> shared_networks(std::span<const MachineRecord> records,
                                                     const std::vector<int>& machine_of,
                                                     std::string_view kind) {
  std::unordered_map<std::string_view, int> first;  // machine
  std::unordered_set<std::string_view> shared;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    for (const RailRecord& rail : records[rank].rails) {
      if (rail.kind != kind) continue;
      const int machine = machine_of[rank];
      if (first.emplace(rail.rail, machine).first->second != machine) shared.insert(rail.rail);
    }
  }
  return shared;
}

// The rails of one kind that reach other machines: those on networks that another machine has, too.
// If another machine has none of a rank's networks, all rails of the rank count, because bonds then
// pair rails by their order.
Places connecting(std::span<const MachineRecord> records, const std::vector<int>& machine_of,
                  std::string_view kind) {
  const std::unordered_set<std::string_view> shared = shared_networks(records, machine_of, kind);
  Places places;
  for (const MachineRecord& record : records) {
    const std::vector<int> all = places_of(record, kind);
    std::vector<int>& own = places.emplace_back();
    std::ranges::copy_if(all, std::back_inserter(own),
                         [&](int place) { return shared.contains(rail_at(record, place).rail); });
    if (own.empty()) own = all;
  }
  return places;
}

int fewest(const Places& places) {
  std::size_t least = kMostRails;
  for (const std::vector<int>& own : places) least = std::min(least, own.size());
  return static_cast<int>(least);
}

// The shares of the ranks of one machine: for each rank, the rails that it uses, as indices into
// its row of `places`. Empty: every rank uses all of its rails. This is also the result if the
// ranks have not opened the same interfaces, because a user chose them by name.
std::vector<std::vector<int>> shared_out(std::span<const MachineRecord> records,
                                         const std::vector<Rank>& ranks, const Places& places) {
  const auto rails_at = [&](Rank rank) {
    const auto at = static_cast<std::size_t>(rank);
    std::vector<RailRecord> rails;
    for (const int place : places[at]) rails.push_back(rail_at(records[at], place));
    return rails;
  };
  const std::vector<RailRecord> first = rails_at(ranks.front());
  std::vector<std::vector<int>> far;
  for (const Rank rank : ranks) {
    const std::vector<RailRecord> own = rails_at(rank);
    if (!std::ranges::equal(own, first, {}, &RailRecord::interface, &RailRecord::interface))
      return {};
    std::vector<int>& row = far.emplace_back();
    for (const RailRecord& rail : own) row.push_back(rail.far);
  }
  // If the rates of some interfaces are known, an interface of unknown rate gets no share, because
  // no rank should depend on it.
  std::vector<double> rates;
  for (const RailRecord& rail : first) rates.push_back(std::max(rail.mbit_per_s, 0));
  const auto is_told = [](double rate) { return rate > 0; };
  if (std::ranges::none_of(rates, is_told)) std::ranges::fill(rates, 1.0);
  return share_rails(far, rates, records[static_cast<std::size_t>(ranks.front())].policy);
}

// A list such as "rank 3" or "ranks 0-2, 5".
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

void share_out(std::span<const MachineRecord> records, const Places& places, Machines& machines) {
  for (const std::vector<Rank>& beside : machines.ranks) {
    const std::vector<std::vector<int>> shares = shared_out(records, beside, places);
    for (std::size_t place = 0; place < beside.size(); ++place) {
      const auto rank = static_cast<std::size_t>(beside[place]);
      const std::vector<int>& all = places[rank];
      if (shares.empty()) {
        std::ranges::copy(all, std::back_inserter(machines.used[rank]));
      } else {
        for (const int rail : shares[place])
          machines.used[rank].push_back(all[static_cast<std::size_t>(rail)]);
      }
    }
  }
}

// The names of a rank's rails in the order in which bonds number them (PathChoice::prefer_rail).
std::vector<std::string> names_of(const MachineRecord& record, const std::vector<int>& places) {
  std::vector<std::string> names;
  for (const int place : places) names.push_back(rail_at(record, place).rail);
  std::ranges::sort(names);
  return names;
}

std::vector<int> common(const std::vector<int>& ascending, const std::vector<int>& other) {
  std::vector<int> both;
  std::ranges::set_intersection(ascending, other, std::back_inserter(both));
  return both;
}

// The rails of the same kind that are not among `connecting`.
std::vector<int> without(const MachineRecord& record, const std::vector<int>& connecting) {
  const std::vector<int> all = places_of(record, rail_at(record, connecting.front()).kind);
  std::vector<int> others;
  std::ranges::set_difference(all, connecting, std::back_inserter(others));
  return others;
}

// The bond's numbers of the rails that the rank uses, in the order of `used`. The bond numbers the
// rails that lead to other machines, `places`, by their names.
std::vector<int> numbers_of_used(const MachineRecord& record, const std::vector<int>& used,
                                 std::vector<int> places) {
  std::ranges::stable_sort(places, {}, [&record](int place) -> const std::string& {
    return rail_at(record, place).rail;
  });
  std::vector<int> numbers;
  if (places.size() < 2) return numbers;
  for (const int place : used)
    numbers.push_back(static_cast<int>(std::ranges::find(places, place) - places.begin()));
  return numbers;
}

// The rates of used rails, each at the rank where it is slowest; empty if they cannot be compared.
std::vector<std::uint32_t> slowest_rates(std::span<const MachineRecord> records,
                                         const Places& used) {
  std::vector<std::uint32_t> rates(used.front().size(), ~std::uint32_t{0});
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (used[rank].size() != rates.size()) return {};
    for (std::size_t rail = 0; rail < rates.size(); ++rail) {
      const int mbit = rail_at(records[rank], used[rank][rail]).mbit_per_s;
      if (mbit <= 0) return {};
      rates[rail] = std::min(rates[rail], static_cast<std::uint32_t>(mbit));
    }
  }
  return rates;
}

// The value of Layout::near; empty if the names of the rails differ between ranks, or no rank has a
// near rail.
std::vector<int> near_of(std::span<const MachineRecord> records, const Machines& machines,
                         const Places& places) {
  const std::vector<std::string> names = names_of(records.front(), places.front());
  std::vector<int> near;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (names_of(records[rank], places[rank]) != names) return {};
    const std::vector<int>& numbers = machines.used_numbers[rank];
    near.push_back(numbers.size() == 1 ? numbers.front() : kAnyRail);
  }
  const bool is_known = std::ranges::any_of(near, [](int rail) { return rail != kAnyRail; });
  return is_known ? near : std::vector<int>();
}

// Ranks with different algorithms, slots or pieces would wait for each other in vain.
Status check_tuning(std::span<const MachineRecord> records) {
  const std::uint64_t first = records.front().tuning;
  const auto other = std::ranges::find_if(
      records, [first](const MachineRecord& record) { return record.tuning != first; });
  if (other == records.end()) return {};
  const auto rank = static_cast<Rank>(other - records.begin());
  const bool has_one = first == 0 || other->tuning == 0;
  return {
      Code::mismatch,
      fmt::format("rank {} has {} profile (WEFT_PROFILE, WEFT_ALLREDUCE, WEFT_PIECE_BYTES) {}: all "
                  "ranks of a job "
                  "need the same",
                  has_one && first != 0 ? 0 : rank, has_one ? "a" : "another",
                  has_one ? fmt::format("and rank {} none", first == 0 ? 0 : rank) : "than rank 0"),
      rank};
}

// What a rank has on its machine: "2 cores, ucx 10000, ucx 10000 Mbit/s".
std::string equipment_of(const MachineRecord& record) {
  std::string text = fmt::format("{} core{}", record.cores, record.cores == 1 ? "" : "s");
  std::vector<std::string> rails;
  for (const RailRecord& rail : record.rails) {
    const std::string rate = rail.mbit_per_s > 0 ? fmt::format("{} Mbit/s", rail.mbit_per_s) : "?";
    rails.push_back(fmt::format(", {} {}", rail.kind, rate));
  }
  std::ranges::sort(rails);
  for (const std::string& rail : rails) text += rail;
  return text;
}

}  // namespace

JobTopology topology_of(std::span<const MachineRecord> records) {
  std::unordered_map<std::uint64_t, std::size_t> numbers;
  std::string whole;
  bool are_alike = true;
  const std::string first = equipment_of(records.front());
  for (const MachineRecord& record : records) {
    const std::string own = equipment_of(record);
    are_alike = are_alike && own == first;
    whole += fmt::format("{}: {}\n", numbers.emplace(record.identity, numbers.size()).first->second,
                         own);
  }
  return {fmt::format("{:016x}", fnv1a64(whole)),
          fmt::format("{} rank{} on {} machine{}: {}{}", records.size(),
                      records.size() == 1 ? "" : "s", numbers.size(),
                      numbers.size() == 1 ? "" : "s", first, are_alike ? "" : "; they differ")};
}

std::string MachineRecord::to_text() const {
  std::string text = fmt::format("{:x} {} {} {:d} {} {:x} {}\n", identity, weft::name(policy),
                                 lanes, nccl, cores, tuning, rails.size());
  for (const RailRecord& rail : rails) {
    text += fmt::format("{} {} {} {} {}\n", rail.kind, rail.far, rail.mbit_per_s, rail.interface,
                        rail.rail);
  }
  return text + name;
}

Result<MachineRecord> machine_record(std::string_view text) {
  const Status wrong(
      Code::mismatch,
      fmt::format("'{}' does not describe a machine: other versions of Weft in one job?",
                  text.substr(0, 80)));
  MachineRecord record;
  const bool has_identity = read(take_until(text, ' ').value_or(""), record.identity, 16);
  const Result<RailPolicy> policy = rail_policy(take_until(text, ' ').value_or(""));
  const bool has_lanes = read(take_until(text, ' ').value_or(""), record.lanes);
  int nccl = -1;
  const bool has_nccl = read(take_until(text, ' ').value_or(""), nccl);
  const bool has_cores = read(take_until(text, ' ').value_or(""), record.cores);
  const bool has_tuning = read(take_until(text, ' ').value_or(""), record.tuning, 16);
  std::size_t rails = 0;
  const bool has_rails = read(take_until(text, '\n').value_or(""), rails);
  if (!has_identity || !policy.ok() || !has_rails || rails > kMostRails) return wrong;
  if (!has_lanes || record.lanes < 1 || record.lanes > Config::kMostLanes) return wrong;
  if (!has_nccl || nccl < 0 || nccl > 1 || !has_tuning) return wrong;
  if (!has_cores || record.cores < 1 || record.cores > kMostCores) return wrong;
  record.policy = *policy;
  record.nccl = nccl == 1;
  for (std::size_t rail = 0; rail < rails; ++rail) {
    const std::optional<RailRecord> read = rail_record(take_until(text, '\n').value_or(""));
    if (!read) return wrong;
    record.rails.push_back(*read);
  }
  record.name = text;
  return record;
}

MachineRecord this_machine(const std::string& host) {
  MachineRecord record;
  if (!host.empty()) {
    record.name = host;
    record.identity = fnv1a64(host);
    return record;
  }
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  record.name = name;
  record.identity = fnv1a64(name + boot);
  return record;
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

Status check_policies(std::span<const MachineRecord> records) {
  const auto other = std::ranges::find_if(records, [&records](const MachineRecord& record) {
    return record.policy != records.front().policy;
  });
  if (other == records.end()) return check_tuning(records);
  const auto rank = static_cast<Rank>(other - records.begin());
  return {Code::mismatch,
          fmt::format("rank {} has WEFT_RAILS={} and rank 0 {}: all ranks of a job need the same",
                      rank, name(other->policy), name(records.front().policy)),
          rank};
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
  machines.used.resize(records.size());
  std::optional<Places> between;  // the rails of the first kind that all ranks have
  for (const std::string_view kind : kKinds) {
    Places places = connecting(records, machines.layout.machine, kind);
    share_out(records, places, machines);
    if (!between && fewest(places) > 0) between = std::move(places);
  }
  for (std::vector<int>& used : machines.used) std::ranges::sort(used);
  machines.topology = topology_of(records);
  machines.lanes = std::ranges::min(records, {}, &MachineRecord::lanes).lanes;
  for (const std::vector<Rank>& here : machines.ranks) {
    machines.nccl.push_back(std::ranges::all_of(
        here, [&](Rank rank) { return records[static_cast<std::size_t>(rank)].nccl; }));
  }
  machines.used_numbers.resize(records.size());
  machines.lost.resize(records.size());
  if (!between) return machines;
  Places carrying;  // the rails of that kind that ranks use
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    carrying.push_back(common(machines.used[rank], (*between)[rank]));
    machines.lost[rank] = without(records[rank], (*between)[rank]);
    machines.used_numbers[rank] = numbers_of_used(records[rank], carrying[rank], (*between)[rank]);
  }
  machines.rail_rates = slowest_rates(records, carrying);
  machines.layout.rails = fewest(*between);
  machines.layout.near = near_of(records, machines, *between);
  return machines;
}

}  // namespace weft
