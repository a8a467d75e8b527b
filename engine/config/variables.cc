// The table of variables: the only place where a name, a field, a range and a meaning meet.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/config/config.h"
#include "scheduler/plan/plan.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

struct Range {
  std::int64_t lowest;
  std::int64_t highest;
};

// A word that stands for a number, such as auto for -1.
struct Word {
  std::string word;
  std::int64_t value;
};

std::optional<std::int64_t> parse_whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
Variable whole(std::string name, T Config::*field, std::string_view unit, Range range,
               std::string meaning, std::optional<Word> word = std::nullopt) {
  Variable variable;
  variable.name = std::move(name);
  variable.accepted =
      fmt::format("{}a whole number{}{} from {} to {}", word ? word->word + " or " : "",
                  unit.empty() ? "" : " of ", unit, range.lowest, range.highest);
  variable.meaning = std::move(meaning);
  variable.read = [=](std::string_view text, Config& config) {
    if (word && text == word->word) {
      config.*field = static_cast<T>(word->value);
      return true;
    }
    const auto value = parse_whole(text);
    if (!value || *value < range.lowest || *value > range.highest) return false;
    config.*field = static_cast<T>(*value);
    return true;
  };
  variable.show = [=](const Config& config) {
    return word && config.*field == word->value ? word->word : std::to_string(config.*field);
  };
  return variable;
}

template <typename T>
Variable choice(std::string name, T Config::*field, std::vector<std::pair<std::string, T>> choices,
                std::string meaning) {
  Variable variable;
  variable.name = std::move(name);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string_view between = i == 0 ? "" : i + 1 < choices.size() ? ", " : " or ";
    variable.accepted += fmt::format("{}{}", between, choices[i].first);
  }
  variable.meaning = std::move(meaning);
  variable.read = [=](std::string_view text, Config& config) {
    const auto found = std::ranges::find(choices, text, &std::pair<std::string, T>::first);
    if (found == choices.end()) return false;
    config.*field = found->second;
    return true;
  };
  variable.show = [=](const Config& config) {
    return std::ranges::find(choices, config.*field, &std::pair<std::string, T>::second)->first;
  };
  return variable;
}

// Text that is empty (the default) or fulfils `accepts`.
Variable text(std::string name, std::string Config::*field, std::string accepted,
              bool (*accepts)(std::string_view), std::string meaning) {
  Variable variable;
  variable.name = std::move(name);
  variable.accepted = std::move(accepted);
  variable.meaning = std::move(meaning);
  variable.read = [=](std::string_view value, Config& config) {
    if (!value.empty() && !accepts(value)) return false;
    config.*field = std::string(value);
    return true;
  };
  variable.show = [=](const Config& config) { return config.*field; };
  return variable;
}

bool is_address(std::string_view value) {
  return parse_address(value).ok();
}
bool is_port_range(std::string_view value) {
  Config config;
  config.ucx_ports = value;
  return ucx_options(config).ok();
}
bool is_path(std::string_view value) {
  return value.size() < 4096;
}
bool is_directory_path(std::string_view value) {
  return value.front() == '/' && is_path(value);
}
bool is_live_folder(std::string_view value) {
  return value == "auto" || is_directory_path(value);
}
bool is_key(std::string_view value) {
  return value.size() >= 16 && value.size() <= 256;
}
bool is_identity(std::string_view value) {
  const auto visible = [](char c) { return c > ' ' && c < '\x7f'; };
  return value.size() <= 255 && std::ranges::all_of(value, visible);
}

bool is_allreduce_table(std::string_view value) {
  return AllreduceTable::parse(value).ok();
}

bool is_list(std::string_view value) {
  return is_identity(value) && value.front() != ',' && value.back() != ',' &&
         value.find(",,") == std::string_view::npos;
}

Variable secret(Variable variable) {
  variable.secret = true;
  return variable;
}

std::vector<Variable> make_table() {
  constexpr std::int64_t kMostRanks = 1 << 20;
  return {
      choice<Launcher>(
          "WEFT_LAUNCHER", &Config::launcher,
          {{"automatic", Launcher::automatic},
           {"weft", Launcher::weft},
           {"pmix", Launcher::pmix},
           {"torchrun", Launcher::torchrun},
           {"alone", Launcher::alone}},
          "the launcher that started this process; automatic: the one whose variables are set"),
      whole("WEFT_RANK", &Config::rank, "", {0, kMostRanks - 1}, "number of this rank in the job"),
      whole("WEFT_SIZE", &Config::size, "ranks", {1, kMostRanks}, "ranks in the job"),
      whole("WEFT_LOCAL_RANK", &Config::local_rank, "", {0, kMostRanks - 1},
            "number of this rank among those of its machine; unknown: found through the rendezvous",
            Word{"unknown", kNoRank}),
      whole("WEFT_LOCAL_SIZE", &Config::local_size, "ranks", {1, kMostRanks},
            "ranks on this machine; unknown: found through the rendezvous", Word{"unknown", 0}),
      whole("WEFT_LOCAL_CORES", &Config::local_cores, "cores", {1, 65'536},
            "cores that the ranks of this machine share; unknown: those that this process may use",
            Word{"unknown", 0}),
      text("WEFT_HOST", &Config::host, "at most 255 visible characters", is_identity,
           "identity of this machine: ranks with the same one share memory; empty: the kernel's"),
      text("WEFT_RENDEZVOUS", &Config::rendezvous, "host:port with a port from 1 to 65535",
           is_address, "where the ranks meet; empty: a job of one rank"),
      choice<ServedBy>(
          "WEFT_RENDEZVOUS_SERVER", &Config::served_by,
          {{"rank0", ServedBy::rank0}, {"launcher", ServedBy::launcher}},
          "the process that serves the rendezvous: rank 0, or the launcher (`weft run`)"),
      secret(text("WEFT_JOB_KEY", &Config::job_key, "16 to 256 characters", is_key,
                  "secret that admits a rank to the job; the same for all of them")),
      choice<Transports>(
          "WEFT_TRANSPORTS", &Config::transports,
          {{"automatic", Transports{}},
           {"shm", Transports{.automatic = false, .shm = true, .ib = false, .ucx = false}},
           {"ib", Transports{.automatic = false, .shm = false, .ib = true, .ucx = false}},
           {"ucx", Transports{.automatic = false, .shm = false, .ib = false, .ucx = true}},
           {"shm,ib", Transports{.automatic = false, .shm = true, .ib = true, .ucx = false}},
           {"shm,ucx", Transports{.automatic = false, .shm = true, .ib = false, .ucx = true}},
           {"ib,ucx", Transports{.automatic = false, .shm = false, .ib = true, .ucx = true}},
           {"shm,ib,ucx", Transports{.automatic = false, .shm = true, .ib = true, .ucx = true}}},
          "transports to other ranks; automatic: shared memory inside a machine; between machines "
          "RDMA verbs if both ranks have a usable port, else UCX"),
      text("WEFT_INTERFACES", &Config::interfaces, "names of interfaces with commas between them",
           is_list,
           "network interfaces and RDMA devices to use (eth0, mlx5_0, or mlx5_0:2 for its second "
           "port); empty: all that are up and have an address"),
      choice<RailChoice>(
          "WEFT_RAILS", &Config::rails,
          {{"auto", RailChoice::automatic}, {"near", RailChoice::near}, {"all", RailChoice::all}},
          "which interfaces a rank uses while they work well; near: those near its GPU or cores, "
          "divided among the ranks of the machine; all: all of them; auto: near if one interface "
          "is nearer than another, else all"),
      whole("WEFT_GPU", &Config::gpu, "", {-1, 65'535},
            "number of the GPU that this rank works with, which decides which interfaces are near; "
            "-1: none; auto: that of the local rank, among those that the process sees",
            Word{"auto", Config::kUsualGpu}),
      choice<GpuReduce>(
          "WEFT_GPU_REDUCE", &Config::gpu_reduce,
          {{"auto", GpuReduce::automatic}, {"host", GpuReduce::host}, {"gpu", GpuReduce::gpu}},
          "who reduces tensors in GPU memory; gpu: large ones the GPU that has the "
          "result, where it can read what is summed; auto: gpu where Weft has kernels "
          "for it (docs/gpu.md)"),
      choice<bool>("WEFT_GPU_IPC", &Config::gpu_ipc, {{"off", false}, {"on", true}},
                   "ranks of a machine read each other's GPU memory where it is (CUDA IPC), if "
                   "GPUs reduce"),
      choice<bool>("WEFT_GPU_RDMA", &Config::gpu_rdma, {{"off", false}, {"on", true}},
                   "RDMA ports send GPU memory from where it is (GPUDirect RDMA), if GPUs reduce "
                   "and the port's driver registers it"),
      choice<NcclUse>(
          "WEFT_NCCL", &Config::nccl,
          {{"auto", NcclUse::automatic}, {"on", NcclUse::on}, {"off", NcclUse::off}},
          "NCCL runs large allreduces and broadcasts of the ranks of one machine, where each has "
          "its "
          "tensors on a GPU of its own; auto: if it was measured to be faster (docs/gpu.md)"),
      text("WEFT_HARDWARE", &Config::hardware, "the path of a file", is_path,
           "file that corrects what Weft finds out about this machine (docs/hardware.md)"),
      whole("WEFT_IB_GID_INDEX", &Config::ib_gid_index, "", {0, 255},
            "index of the address (GID) to use on each RDMA port; auto: the best one over which "
            "the peer answers",
            Word{"auto", -1}),
      whole("WEFT_IB_QUEUE_PAIRS", &Config::ib_queue_pairs, "queue pairs", {1, 4},
            "connections (queue pairs) per peer and RDMA port, the same on all ranks; if there are "
            "several, the first carries control messages and the others data"),
      whole("WEFT_IB_MTU", &Config::ib_mtu, "bytes", {256, 4096},
            "size of an RDMA packet, a power of two; auto: the smaller MTU of the two ports",
            Word{"auto", 0}),
      whole("WEFT_IB_TRAFFIC_CLASS", &Config::ib_traffic_class, "", {0, 255},
            "traffic class of RDMA packets (RoCE: DSCP x 4 + ECN)"),
      whole("WEFT_IB_SERVICE_LEVEL", &Config::ib_service_level, "", {0, 15},
            "service level of RDMA packets"),
      whole("WEFT_IB_UDP_SOURCE_PORT", &Config::ib_udp_source_port, "", {49152, 65535},
            "UDP source port of the first RDMA connection to a peer (RoCE v2); further connections "
            "take the next numbers; auto: the driver chooses",
            Word{"auto", 0}),
      whole("WEFT_IB_TIMEOUT", &Config::ib_timeout, "", {1, 31},
            "time after which an unacknowledged RDMA packet is sent again: 4.096 us x 2^value"),
      whole("WEFT_IB_RETRIES", &Config::ib_retries, "times", {0, 7},
            "how often an RDMA packet is sent again before the path counts as failed"),
      whole("WEFT_IB_RNR_TIMER", &Config::ib_rnr_timer, "", {0, 31},
            "time that a sender waits when the receiver has no room, in InfiniBand's numbering (1: "
            "0.01 ms, 12: 0.64 ms, 31: 492 ms, 0: 655 ms); the sender then tries again, without "
            "limit"),
      whole("WEFT_IB_RECEIVE_DEPTH", &Config::ib_receive_depth, "messages", {64, 32'768},
            "entries in the receive queue of an RDMA port, which all peers share"),
      choice<bool>(
          "WEFT_MEMORY_HOOKS", &Config::memory_hooks, {{"off", false}, {"on", true}},
          "patch the memory functions of the C library (UCX's libucm), so that RDMA sends any "
          "memory without a copy and not only memory from weft::allocate; mremap with "
          "MREMAP_FIXED then fails in the whole process"),
      text("WEFT_UCX_TRANSPORTS", &Config::ucx_transports, "UCX's names with commas between them",
           is_list, "UCX transports that may be used on a network interface"),
      text("WEFT_UCX_PORTS", &Config::ucx_ports, "first-last, ports from 1 to 65535", is_port_range,
           "TCP ports at which UCX may listen, for a firewall; one for each context, lane and "
           "interface of a rank; empty: any (docs/security.md)"),
      whole("WEFT_PATH_SILENCE_MS", &Config::path_silence_ms, "milliseconds", {1, 3'600'000},
            "time after which a path that has data to carry and carries none is probed; if no "
            "answer comes for as long again, the other paths take its data"),
      whole("WEFT_DEADLINE_MS", &Config::deadline_ms, "milliseconds", {1, 86'400'000},
            "deadline of every wait for which the program gives none"),
      choice<OnDeath>(
          "WEFT_ON_DEATH", &Config::on_death, {{"fail", OnDeath::fail}, {"skip", OnDeath::skip}},
          "what the death of a rank means to the others; fail: their operations are errors from "
          "then on; skip: operations go on without the rank (docs/reliability.md)"),
      choice<ProgressMode>("WEFT_PROGRESS", &Config::progress,
                           {{"thread", ProgressMode::thread}, {"waiter", ProgressMode::waiter}},
                           "who moves data: thread: a thread of the context and callers that wait; "
                           "waiter: only callers that wait for that context"),
      whole("WEFT_SPIN_NS", &Config::spin_ns, "nanoseconds", {0, 1'000'000'000},
            "time that a wait spins before it yields; auto: by the number of ranks per core",
            Word{"auto", -1}),
      whole("WEFT_YIELD_US", &Config::yield_us, "microseconds", {0, 1'000'000},
            "time that a wait then yields before it sleeps; auto: by the number of ranks per core",
            Word{"auto", -1}),
      whole("WEFT_LANES", &Config::lanes, "lanes", {1, Config::kMostLanes},
            "threads of a rank that share large operations, each with network interfaces of its "
            "own; all ranks use as many as the rank with the fewest can; auto: by the cores and "
            "the interfaces of the rank",
            Word{"auto", 0}),
      text("WEFT_PROFILE", &Config::profile, "the path of a file", is_path,
           "file of `weft tune` with values for variables that are not set; the same on all ranks "
           "(docs/operators.md)"),
      text("WEFT_ALLREDUCE", &Config::allreduce,
           "auto, or algorithms by size, such as direct:16384,ring", is_allreduce_table,
           "algorithm of an allreduce that names none; NAME:BYTES is for inputs of up to so many "
           "bytes, a NAME alone for larger ones; auto: by rule; the same on all ranks"),
      whole("WEFT_PIECE_BYTES", &Config::piece_bytes, "bytes", {4096, 1 << 20},
            "largest piece of a message to another machine; auto: as large as the interface takes "
            "it (256 KiB over RDMA, 512 KiB over UCX)",
            Word{"auto", 0}),
      whole("WEFT_FUSION_BYTES", &Config::fusion_bytes, "bytes", {0, 1 << 30},
            "tensors that are submitted by name are fused into messages of at most so many bytes, "
            "if the program does not say it; auto: 512 KiB inside a machine, 8 MiB over networks",
            Word{"auto", -1}),
      whole("WEFT_CHANNELS", &Config::channels, "operations", {1, 61},
            "operations that run at the same time in a context; further ones wait for a free "
            "channel"),
      whole("WEFT_SLOTS", &Config::slots, "slots", {2, 256},
            "places for messages that wait at a receiver of the same machine, per channel and "
            "sender, a power of two"),
      whole("WEFT_RAIL_SLOTS", &Config::rail_slots, "slots", {2, 256},
            "messages and pieces that may be under way over a network, per interface, channel and "
            "peer, a power of two"),
      whole("WEFT_EAGER_BYTES", &Config::eager_bytes, "bytes", {64, (1 << 20) - 64},
            "largest message that is copied to the receiver; the receiver reads larger ones from "
            "the sender's memory"),
      whole("WEFT_HEAP_MIB", &Config::heap_mib, "MiB", {0, 1 << 24},
            "address space for weft::allocate; memory is taken only as it is allocated; 0: the "
            "size of physical memory, less if `ulimit -v` leaves little"),
      text("WEFT_SHM_DIR", &Config::shm_dir, "an absolute path", is_directory_path,
           "directory for the shared memory file; empty: an anonymous memory file"),
      choice<HugePageUse>("WEFT_HUGE_PAGES", &Config::huge_pages,
                          {{"auto", HugePageUse::automatic}, {"off", HugePageUse::off}},
                          "huge pages for shared memory, if the kernel offers them"),
      choice<PrivatePath>(
          "WEFT_PRIVATE_MEMORY", &Config::private_memory,
          {{"auto", PrivatePath::automatic},
           {"cma", PrivatePath::cma},
           {"staging", PrivatePath::staging}},
          "how ranks of a machine read memory that Weft did not allocate: cma: process_vm_readv; "
          "staging: through copies in shared memory; auto: the faster one, which is measured for "
          "each operation and size of message"),
      choice<Bits>(
          "WEFT_BITS", &Config::bits, {{"auto", Bits::automatic}, {"fixed", Bits::fixed}},
          "which bits sums have; fixed: those of the sum in the order of the ranks, whatever "
          "the size, the lanes, the transport and the failures of rails; auto: those of the "
          "fastest way; the same on all ranks (docs/bits.md)"),
      choice<Digests>(
          "WEFT_DIGESTS", &Config::digests,
          {{"off", Digests::off},
           {"pieces", Digests::pieces},
           {"results", Digests::results},
           {"all", Digests::all}},
          "which data ranks check for damage by a CRC-32C; pieces: each piece of a message, by the "
          "rank that takes it; results: those that ranks have in common, by comparing them; the "
          "same "
          "on all ranks (docs/bits.md)"),
      choice<bool>("WEFT_TOPO_CHECK", &Config::topo_check, {{"1", true}, {"0", false}},
                   "check that both ends of every edge know the edge, in operations over a graph"),
      text("WEFT_RECORD", &Config::record, "a path", is_path,
           "file for the calls of the first context with their inputs and the digests of their "
           "results, "
           "up to 1 GiB, for `weft replay`; the rank is added to its name; empty: none"),
      text("WEFT_TRACE", &Config::trace, "a path", is_path,
           "file for the timeline (Chrome trace); the rank is added to its name; empty: none"),
      text("WEFT_METRICS", &Config::metrics, "a path", is_path,
           "file for metrics (Prometheus text), replaced every 10 s and in the end; the rank is "
           "added to its name; empty: none"),
      text("WEFT_FLIGHT", &Config::flight, "a path", is_path,
           "file for the latest operations of each context, for `weft flight`, written when a "
           "context "
           "fails; the rank is added to its name; empty: none"),
      text("WEFT_LIVE", &Config::live, "auto or the path of a folder that begins with /",
           is_live_folder,
           "folder of a local socket by which the rank answers `weft flight --live`; auto: "
           "/run/user/UID/weft or /tmp/weft-UID; empty: no socket"),
      choice<LogLevel>("WEFT_LOG", &Config::log,
                       {{"debug", LogLevel::debug},
                        {"info", LogLevel::info},
                        {"warning", LogLevel::warning},
                        {"error", LogLevel::error},
                        {"off", LogLevel::off}},
                       "lowest level of messages that are written to standard error"),
  };
}

}  // namespace

const std::vector<Variable>& variables() {
  static const std::vector<Variable> table = make_table();
  return table;
}

}  // namespace weft
