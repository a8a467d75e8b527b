// lane_options: see the header.
#include "engine/job/lane_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>

namespace weft {
namespace {

// The size of an output from which it is written past the caches. The ranks of a machine share the
// last-level cache, and each has an input and an output of about the same size. If these do not all
// fit the cache, outputs are written faster past it (measured: docs/performance.md).
std::size_t streaming_bytes(int ranks_here) {
  constexpr std::size_t kUsualKib = 32 << 10;
  // The kernel's own figure: sysconf() reports the caches of all sockets of the host in some
  // virtual machines.
  std::size_t kib = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kib;
  return ((kib != 0 ? kib : kUsualKib) << 10) / 2 / static_cast<std::size_t>(ranks_here);
}

PrivateForm private_form(PrivatePath path) {
  switch (path) {
    case PrivatePath::cma:
      return PrivateForm::process;
    case PrivatePath::staging:
      return PrivateForm::staged;
    case PrivatePath::automatic:
      break;
  }
  return PrivateForm::cheaper;
}

ExecutionOptions execution_options(const Config& config, std::uint16_t number,
                                   const Interface& interface) {
  ExecutionOptions options;
  options.payload_bytes = static_cast<std::size_t>(config.eager_bytes);
  options.private_memory = private_form(config.private_memory);
  options.check_graph = config.topo_check;
  options.checks_pieces = config.digests == Digests::pieces || config.digests == Digests::all;
  options.compares_results = config.digests == Digests::results || config.digests == Digests::all;
  options.streaming_bytes = streaming_bytes(ranks_here(config));
  options.slots = static_cast<std::uint32_t>(config.slots);
  options.piece_bytes = interface.piece_bytes() / 64 * 64;
  if (config.piece_bytes > 0)
    options.piece_bytes =
        std::min(options.piece_bytes, static_cast<std::size_t>(config.piece_bytes) / 64 * 64);
  options.job = interface_options(config).job;
  options.context = number;
  options.rank = config.rank;
  options.size = config.size;
  return options;
}

std::int64_t yield_ns(const Config& config) {
  return config.yield_us < 0 ? -1 : config.yield_us * 1000;
}

// The place of a side lane: near the rail that its stripes prefer.
LanePlace place_near(std::size_t number, std::span<const int> used, std::span<const int> nodes) {
  if (used.size() < 2 || nodes.empty()) return {};
  const auto rail = static_cast<std::size_t>(used[number % used.size()]);
  const int node[] = {nodes[rail]};
  return place_lane_here(node, -1);
}

}  // namespace

int ranks_here(const Config& config) {
  return config.local_size > 0 ? config.local_size : config.size;
}

int cores_here(const Config& config) {
  return config.local_cores > 0 ? config.local_cores : usable_cores();
}

LaneOptions lane_options(const Config& config, std::uint16_t context, LogVoice voice,
                         const OpenedInterfaces& opened) {
  const int ranks = ranks_here(config);
  const int cores = cores_here(config);
  LaneOptions options;
  options.execution = execution_options(config, context, *opened.interface);
  options.channels = static_cast<std::uint32_t>(config.channels);
  options.policy = wait_policy(ranks, cores, config.spin_ns, yield_ns(config));
  options.thread_policy = background_policy(2 * ranks, cores, config.spin_ns, yield_ns(config));
  options.has_networks = config.transports.networks();
  options.has_thread = config.progress == ProgressMode::thread;
  options.place = opened.place;
  options.voice = voice;
  return options;
}

void make_side_lane(LaneOptions& options, const Config& config, std::size_t number,
                    std::size_t lanes, std::span<const int> used, std::span<const int> nodes) {
  const int threads = ranks_here(config) * static_cast<int>(lanes);
  options.thread_policy =
      background_policy(threads, cores_here(config), config.spin_ns, yield_ns(config));
  options.thread_name = fmt::format("weft-lane-{}", number);
  options.place = place_near(number, used, nodes);
}

}  // namespace weft
