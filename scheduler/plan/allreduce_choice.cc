// allreduce: which algorithm, and why. On one machine the numbers are those of shared memory, where
// a message costs a cache line's trip and a byte costs memory bandwidth; they are measured. Between
// machines they are those of a network, where a message costs microseconds.
#include <fmt/format.h>

#include "scheduler/plan/allreduce_algorithms.h"

namespace weft {
namespace {

// direct reads n M per rank, split 2 M, but split waits once more. Up to about this much, reading
// (it comes from a shared cache) costs less than the wait of a few microseconds.
constexpr std::size_t kDirectReadBytes = 64 << 10;
// Two ranks read 2 M either way; only split's halved write tells, so direct stays ahead for longer.
constexpr std::size_t kDirectPairBytes = 256 << 10;
// direct and split need an edge, and so a slot, for every other rank. Beyond this many ranks that
// memory and the polling of it outweigh their few phases.
constexpr int kCompleteRanks = 64;
// A ring waits 2(n-1) times, so each wait must move a block that is worth it.
constexpr std::size_t kRingBlockBytes = 16 << 10;

// What a rail of 100 Gb/s carries while a message travels (5 us): a wait for less than this is
// mostly waiting.
constexpr std::size_t kNetworkWaitBytes = 64 << 10;

AllreduceChoice choose_on_one_machine(int size, std::size_t bytes) {
  const auto n = static_cast<std::size_t>(size);
  const std::string what = fmt::format("{} bytes on {} ranks", bytes, size);
  if (size == 2) {
    if (bytes <= kDirectPairBytes) {
      return {AllreduceAlgorithm::direct,
              fmt::format("{}: a pair reads directly up to {} bytes", what, kDirectPairBytes)};
    }
    return {AllreduceAlgorithm::split,
            fmt::format("{}: a pair splits above {} bytes", what, kDirectPairBytes)};
  }
  if (size <= kCompleteRanks) {
    if (bytes <= kDirectReadBytes / n) {
      return {AllreduceAlgorithm::direct,
              fmt::format("{}: n * bytes is at most {}, one wait is best", what, kDirectReadBytes)};
    }
    return {AllreduceAlgorithm::split,
            fmt::format("{}: n * bytes is above {}, reading less is best", what, kDirectReadBytes)};
  }
  if (bytes / n >= kRingBlockBytes) {
    return {AllreduceAlgorithm::ring,
            fmt::format("{}: above {} ranks with blocks of at least {} bytes, "
                        "two edges per rank are best",
                        what, kCompleteRanks, kRingBlockBytes)};
  }
  return {AllreduceAlgorithm::halving_doubling,
          fmt::format("{}: above {} ranks with blocks below {} bytes, 2 log2 n waits are best",
                      what, kCompleteRanks, kRingBlockBytes)};
}

// Of algorithms that know nothing of machines, or have nothing to know because each has one rank.
AllreduceChoice choose_on_rails(int size, std::size_t bytes, const Layout& layout,
                                const std::string& what) {
  if (layout.rails >= 2 && check_bcube(size).ok()) {
    return {AllreduceAlgorithm::bcube,
            fmt::format("{}: {} rails are busy at once", what, layout.rails)};
  }
  if (bytes / static_cast<std::size_t>(size) >= kNetworkWaitBytes) {
    return {AllreduceAlgorithm::ring,
            fmt::format("{}: with blocks of at least {} bytes waits do not tell, and a ring needs "
                        "nothing but the way to the next rank",
                        what, kNetworkWaitBytes)};
  }
  return {AllreduceAlgorithm::halving_doubling,
          fmt::format("{}: with blocks below {} bytes, 2 log2 n waits are best", what,
                      kNetworkWaitBytes)};
}

// In this order: one wait, where everybody's input takes no longer than that; a byte per machine
// on the network instead of one per rank; all rails busy; few waits or few edges.
AllreduceChoice choose_between_machines(int size, std::size_t bytes, const Layout& layout) {
  const std::string what =
      fmt::format("{} bytes on {} ranks of {} machines", bytes, size, layout.machines());
  if (size <= kCompleteRanks && bytes <= kNetworkWaitBytes / static_cast<std::size_t>(size)) {
    return {AllreduceAlgorithm::direct,
            fmt::format("{}: n * bytes is at most {}, one wait is best", what, kNetworkWaitBytes)};
  }
  if (check_hierarchical(size, layout).ok()) {
    return {AllreduceAlgorithm::hierarchical,
            fmt::format("{}: each byte crosses the network once per machine", what)};
  }
  return choose_on_rails(size, bytes, layout, what);
}

}  // namespace

AllreduceChoice choose_allreduce(int size, std::size_t bytes, const Layout& layout) {
  return layout.machines() <= 1 ? choose_on_one_machine(size, bytes)
                                : choose_between_machines(size, bytes, layout);
}

AllreduceChoice choose_in_rank_order(int size, std::size_t bytes, const Layout& layout) {
  AllreduceChoice usual = choose_allreduce(size, bytes, layout);
  if (sums_in_rank_order(usual.algorithm)) {
    usual.reason += "; it sums in rank order, so fixed bits cost nothing";
    return usual;
  }
  const std::size_t direct = layout.machines() <= 1 ? kDirectReadBytes : kNetworkWaitBytes;
  const bool is_direct = bytes <= direct / static_cast<std::size_t>(size);
  return {is_direct ? AllreduceAlgorithm::direct : AllreduceAlgorithm::split,
          fmt::format(
              "{} bytes on {} ranks: fixed bits, so sums are made in rank order, in place of {}",
              bytes, size, name(usual.algorithm))};
}

}  // namespace weft
