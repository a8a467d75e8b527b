// The command line's words turned into values.
#include "tools/weft/predict/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tools/weft/common/bytes.h"
#include "verbs/ib/ib.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 40;
constexpr std::size_t kMostWords = 64;  // in a list
constexpr double kMostUs = 1e12;

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

Result<std::vector<std::string_view>> words(std::string_view option, std::string_view list) {
  std::vector<std::string_view> found;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    found.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  if (found.empty()) return invalid(fmt::format("--{} is empty", option));
  if (found.size() > kMostWords)
    return invalid(fmt::format("--{}: more than {} of them", option, kMostWords));
  return found;
}

// The whole of `text` as a number.
template <typename Number>
bool reads(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Result<std::vector<int>> ranks_of(const PredictArguments& asked, const Cluster& cluster) {
  const int all = cluster.ranks();
  if (asked.ranks.empty()) return std::vector{all};
  WEFT_ASSIGN(const std::vector<std::string_view> list, words("ranks", asked.ranks));
  std::vector<int> numbers;
  for (const std::string_view word : list) {
    int number = 0;
    if (!reads(word, number) || number < 1 || number > all)
      return invalid(
          fmt::format("--ranks {}: expected numbers of 1…{}, what the cluster has", word, all));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<int>> lanes_of(const PredictArguments& asked) {
  if (asked.lanes.empty()) return std::vector{1};
  WEFT_ASSIGN(const std::vector<std::string_view> list, words("lanes", asked.lanes));
  std::vector<int> numbers;
  for (const std::string_view word : list) {
    int number = 0;
    if (!reads(word, number) || number < 1 || number > kMostLanes)
      return invalid(fmt::format("--lanes {}: expected numbers of 1…{}", word, kMostLanes));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<std::size_t>> sizes_of(const PredictArguments& asked) {
  WEFT_ASSIGN(const std::vector<std::string_view> list, words("sizes", asked.sizes));
  std::vector<std::size_t> sizes;
  for (const std::string_view word : list) {
    WEFT_ASSIGN(const std::size_t bytes, bytes_of("--sizes", word));
    if (bytes > kMostBytes) return invalid(fmt::format("--sizes {}: more than 1024G", word));
    sizes.push_back(bytes);
  }
  return sizes;
}

// Whether a machine's interface on a rail is one of RDMA.
bool has_rdma(const Cluster& cluster) {
  for (const Rail& rail : cluster.rails) {
    for (int machine = 0; machine < std::ssize(rail.nics); ++machine) {
      if (!rail.has(machine)) continue;
      const auto number = static_cast<std::size_t>(machine);
      const auto nic = static_cast<std::size_t>(rail.nics[number]);
      if (!cluster.machines[number].hardware->nics[nic].rdma.empty()) return true;
    }
  }
  return false;
}

Result<std::size_t> piece_of(const PredictArguments& asked, const Cluster& cluster) {
  if (asked.piece.empty()) return network_piece(cluster);
  WEFT_ASSIGN(const std::size_t bytes, bytes_of("--piece", asked.piece));
  if (bytes < 1 || bytes > kMostBytes)
    return invalid(fmt::format("--piece {}: expected 1 byte to 1024G", asked.piece));
  return bytes;
}

// "3:+500us", "3:x2", "3:+500us:x2".
Result<Straggler> straggler_of(std::string_view word) {
  const auto wrong = [&] {
    return invalid(fmt::format(
        "--straggler {}: expected RANK:+500us (late), RANK:x2 (slower), or RANK:+500us:x2", word));
  };
  std::size_t colon = std::min(word.find(':'), word.size());
  Straggler straggler;
  if (!reads(word.substr(0, colon), straggler.rank) || colon == word.size()) return wrong();
  std::string_view rest = word.substr(colon);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    colon = std::min(rest.find(':'), rest.size());
    std::string_view part = rest.substr(0, colon);
    rest.remove_prefix(colon);
    const bool is_late = part.starts_with('+') && part.ends_with("us");
    if (!is_late && !part.starts_with('x')) return wrong();
    part.remove_prefix(1);
    if (is_late) part.remove_suffix(2);
    if (!reads(part, is_late ? straggler.delay_us : straggler.slowdown)) return wrong();
  }
  if (!(straggler.delay_us >= 0 && straggler.delay_us <= kMostUs) ||
      !(straggler.slowdown > 0 && straggler.slowdown <= kMostUs))
    return wrong();
  return straggler;
}

// "2:1" of --lost. Each machine keeps a rail.
Result<std::vector<LostRail>> lost_rails_of(const PredictArguments& asked, Cluster cluster) {
  std::vector<LostRail> lost;
  if (asked.lost.empty()) return lost;
  WEFT_ASSIGN(const std::vector<std::string_view> list, words("lost", asked.lost));
  for (const std::string_view word : list) {
    const auto wrong = [&](std::string_view what) {
      return invalid(fmt::format("--lost {}: {}", word, what));
    };
    const std::size_t colon = word.find(':');
    LostRail each;
    if (colon == std::string_view::npos || !reads(word.substr(0, colon), each.machine) ||
        !reads(word.substr(colon + 1), each.rail))
      return wrong("expected MACHINE:RAIL, both by number, from 0");
    const bool exists = each.machine >= 0 && each.machine < std::ssize(cluster.machines) &&
                        each.rail >= 0 && each.rail < std::ssize(cluster.rails) &&
                        cluster.rails[static_cast<std::size_t>(each.rail)].has(each.machine);
    if (!exists) return wrong("no machine of the cluster has such an interface");
    cluster.rails[static_cast<std::size_t>(each.rail)]
        .nics[static_cast<std::size_t>(each.machine)] = -1;
    if (std::ranges::none_of(cluster.rails,
                             [&each](const Rail& rail) { return rail.has(each.machine); }))
      return wrong("the machine would have no rail");
    lost.push_back(each);
  }
  return lost;
}

// Each is a rank of at least one run, the one with most ranks, and there once.
Result<std::vector<Straggler>> stragglers_of(const PredictArguments& asked, int ranks) {
  std::vector<Straggler> stragglers;
  if (asked.stragglers.empty()) return stragglers;
  WEFT_ASSIGN(const std::vector<std::string_view> list, words("straggler", asked.stragglers));
  for (const std::string_view word : list) {
    WEFT_ASSIGN(const Straggler straggler, straggler_of(word));
    if (straggler.rank < 0 || straggler.rank >= ranks) {
      return invalid(fmt::format("--straggler {}: no run has a rank {}: there are {} ranks", word,
                                 straggler.rank, ranks));
    }
    if (std::ranges::count(stragglers, straggler.rank, &Straggler::rank) != 0) {
      return invalid(fmt::format("--straggler {}: rank {} is there twice; RANK:+500us:x2 is both",
                                 word, straggler.rank));
    }
    stragglers.push_back(straggler);
  }
  return stragglers;
}

Status understand_work(const PredictArguments& asked, PredictOptions& options) {
  WEFT_ASSIGN(const std::vector<std::string_view> operations, words("operation", asked.operations));
  for (const std::string_view word : operations) {
    const Result<Collective> operation = measured_operation(word);
    if (!operation.ok())
      return invalid(fmt::format("--operation {}: {}", word, operation.status().text()));
    options.operations.push_back(*operation);
  }
  WEFT_ASSIGN(const std::vector<std::string_view> algorithms, words("algorithm", asked.algorithms));
  for (const std::string_view word : algorithms) {
    WEFT_ASSIGN(const AllreduceAlgorithm algorithm, allreduce_algorithm(word));
    if (algorithm == AllreduceAlgorithm::nccl)
      return invalid("--algorithm nccl: NCCL's messages are not Weft's, and cannot be predicted");
    options.algorithms.push_back({algorithm, std::string(word)});
  }
  const Result<Bits> asked_bits = bits(asked.bits);
  if (!asked_bits.ok())
    return invalid(fmt::format("--bits {}: {}", asked.bits, asked_bits.status().text()));
  options.bits = *asked_bits;
  WEFT_ASSIGN(options.sizes, sizes_of(asked));
  const bool is_between_machines =
      std::ranges::count(options.operations, Collective::hierarchical_neighbor_allreduce) != 0;
  if (asked.place.is_asked && is_between_machines) {
    return invalid(
        "--place: seats are searched for a graph of ranks, that of "
        "hierarchical_neighbor_allreduce is one of machines");
  }
  return {};
}

}  // namespace

// All rails take what the one with the smallest takes.
std::size_t network_piece(const Cluster& cluster) {
  const std::size_t ucx = UcxOptions{}.piece_bytes;
  return has_rdma(cluster) ? std::min(IbOptions{}.piece_bytes, ucx) : ucx;
}

Cluster first_ranks(const Cluster& cluster, int ranks) {
  Cluster first = cluster;
  const auto machines = static_cast<std::size_t>(cluster.machine_of(ranks - 1)) + 1;
  first.machines.resize(machines);
  first.machines.back().ranks = ranks - first.machines.back().first_rank;
  for (Rail& rail : first.rails) {
    for (int level = 0; level < rail.depth(); ++level)
      rail.levels[static_cast<std::size_t>(level)].below_gbit_per_s = rail.below_switches(level);
    rail.nics.resize(machines);
    rail.gbit_per_s.resize(machines);
  }
  return first;
}

Result<PredictOptions> understand(const PredictArguments& asked) {
  PredictOptions options;
  options.asked = asked;
  WEFT_ASSIGN(options.cluster, cluster_of(asked.cluster, "weft predict"));
  WEFT_RETURN_IF_ERROR(understand_work(asked, options));
  WEFT_ASSIGN(options.ranks, ranks_of(asked, options.cluster));
  WEFT_ASSIGN(options.lanes, lanes_of(asked));
  const Result<RailPolicy> policy = rail_policy(asked.rails);
  if (!policy.ok()) return invalid(fmt::format("--rails {}", policy.status().text()));
  options.policy = *policy;
  constexpr double kLeastCombine = 1e-6;  // a byte in a millisecond
  if (asked.combine_gbyte_per_s > 0 && asked.combine_gbyte_per_s < kLeastCombine)
    return invalid(fmt::format("--combine {}: expected 0, or at least {} GB/s",
                               asked.combine_gbyte_per_s, kLeastCombine));
  options.simulate.message_us = asked.message_us;
  options.simulate.combine_gbyte_per_s = asked.combine_gbyte_per_s;
  options.simulate.collapse = !asked.every_rank;
  WEFT_ASSIGN(options.simulate.piece_bytes, piece_of(asked, options.cluster));
  WEFT_ASSIGN(options.lost,
              lost_rails_of(asked, first_ranks(options.cluster, std::ranges::min(options.ranks))));
  WEFT_ASSIGN(options.simulate.stragglers, stragglers_of(asked, std::ranges::max(options.ranks)));
  return options;
}

}  // namespace weft
