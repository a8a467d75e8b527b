// The table of variables: the only place where a name, a field, a range and a meaning meet.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/config/config.h"

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
bool is_path(std::string_view value) {
  return value.size() < 4096;
}
bool is_directory_path(std::string_view value) {
  return value.front() == '/' && is_path(value);
}
bool is_key(std::string_view value) {
  return value.size() >= 16 && value.size() <= 256;
}
bool is_identity(std::string_view value) {
  const auto visible = [](char c) { return c > ' ' && c < '\x7f'; };
  return value.size() <= 255 && std::ranges::all_of(value, visible);
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
      choice<Launcher>("WEFT_LAUNCHER", &Config::launcher,
                       {{"automatic", Launcher::automatic},
                        {"weft", Launcher::weft},
                        {"pmix", Launcher::pmix},
                        {"torchrun", Launcher::torchrun},
                        {"alone", Launcher::alone}},
                       "who started this process; automatic: whoever's variables are set"),
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
      choice<ServedBy>("WEFT_RENDEZVOUS_SERVER", &Config::served_by,
                       {{"rank0", ServedBy::rank0}, {"launcher", ServedBy::launcher}},
                       "who holds the rendezvous: rank 0's process, or the launcher (`weft run`)"),
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
          "ways to other ranks; automatic: shared memory inside a machine; where the job may span "
          "machines RDMA verbs between ranks that have a usable port, and else UCX"),
      text(
          "WEFT_INTERFACES", &Config::interfaces, "names of interfaces with commas between them",
          is_list,
          "network interfaces and RDMA devices (mlx5_0, or mlx5_0:2 for its second port) to use as "
          "rails; empty: all that are up and have an address"),
      choice<RailChoice>(
          "WEFT_RAILS", &Config::rails,
          {{"auto", RailChoice::automatic}, {"near", RailChoice::near}, {"all", RailChoice::all}},
          "the rails that carry what a rank sends while they work well; near: those near its GPU "
          "or "
          "cores, shared out to the ranks of the machine; auto: near where one is nearer than "
          "another, else all"),
      whole("WEFT_GPU", &Config::gpu, "", {-1, 65'535},
            "the GPU that this rank works with, from which near is counted; -1: none; auto: by "
            "local rank, where the launcher tells it",
            Word{"auto", Config::kUsualGpu}),
      text("WEFT_HARDWARE", &Config::hardware, "the path of a file", is_path,
           "corrects what is found out about this machine (docs/hardware.md)"),
      whole("WEFT_IB_GID_INDEX", &Config::ib_gid_index, "", {0, 255},
            "which of an RDMA port's addresses (GIDs) is used; auto: the best that proves to reach "
            "the peer",
            Word{"auto", -1}),
      whole("WEFT_IB_QUEUE_PAIRS", &Config::ib_queue_pairs, "queue pairs", {1, 4},
            "connections per peer and RDMA port, the same on all ranks; if several, the first "
            "carries the engine's own notes and the others data"),
      whole("WEFT_IB_MTU", &Config::ib_mtu, "bytes", {256, 4096},
            "bytes of an RDMA packet, a power of two; auto: the smaller of both ports'",
            Word{"auto", 0}),
      whole("WEFT_IB_TRAFFIC_CLASS", &Config::ib_traffic_class, "", {0, 255},
            "traffic class of RDMA packets (RoCE: DSCP x 4 + ECN)"),
      whole("WEFT_IB_SERVICE_LEVEL", &Config::ib_service_level, "", {0, 15},
            "service level of RDMA packets"),
      whole("WEFT_IB_UDP_SOURCE_PORT", &Config::ib_udp_source_port, "", {49152, 65535},
            "UDP source port of a peer's first RDMA connection (RoCE v2); the others take the next "
            "ones; auto: the driver's choice",
            Word{"auto", 0}),
      whole("WEFT_IB_TIMEOUT", &Config::ib_timeout, "", {1, 31},
            "an RDMA packet without an answer is sent again after 4.096 us x 2^this"),
      whole("WEFT_IB_RETRIES", &Config::ib_retries, "times", {0, 7},
            "how often, before the path has failed"),
      whole("WEFT_IB_RNR_TIMER", &Config::ib_rnr_timer, "", {0, 31},
            "for how long a receiver without room lets a sender wait, as InfiniBand numbers it (1: "
            "0.01 ms, 12: 0.64 ms, 31: 492 ms, 0: 655 ms); the sender tries again for ever"),
      whole("WEFT_IB_RECEIVE_DEPTH", &Config::ib_receive_depth, "messages", {64, 32'768},
            "places in the receive queue of an RDMA port, which all peers share"),
      text("WEFT_UCX_TRANSPORTS", &Config::ucx_transports, "UCX's names with commas between them",
           is_list, "what UCX may use on a network interface"),
      whole(
          "WEFT_PATH_SILENCE_MS", &Config::path_silence_ms, "milliseconds", {1, 3'600'000},
          "a rail that carries nothing for so long while it should is asked; as long again without "
          "an answer, and the other rails take its pieces"),
      whole("WEFT_DEADLINE_MS", &Config::deadline_ms, "milliseconds", {1, 86'400'000},
            "bound of every wait that is given none of its own"),
      choice<ProgressMode>("WEFT_PROGRESS", &Config::progress,
                           {{"thread", ProgressMode::thread}, {"waiter", ProgressMode::waiter}},
                           "who moves bytes: a thread per interface, or only callers that wait"),
      whole("WEFT_SPIN_NS", &Config::spin_ns, "nanoseconds", {0, 1'000'000'000},
            "how long a wait spins before it yields; auto: by ranks per core", Word{"auto", -1}),
      whole("WEFT_YIELD_US", &Config::yield_us, "microseconds", {0, 1'000'000},
            "how long a wait then yields before it sleeps; auto: by ranks per core",
            Word{"auto", -1}),
      whole("WEFT_CHANNELS", &Config::channels, "operations", {1, 1024},
            "operations in flight per context; one more waits for its turn"),
      whole("WEFT_SLOTS", &Config::slots, "slots", {2, 256},
            "eager slots per channel and in-neighbor, a power of two"),
      whole("WEFT_RAIL_SLOTS", &Config::rail_slots, "slots", {2, 256},
            "notices and pieces under way per rail, channel and peer of a network, a power of two"),
      whole("WEFT_EAGER_BYTES", &Config::eager_bytes, "bytes", {0, (1 << 20) - 64},
            "largest message that is copied to the peer's slot instead of being read in place"),
      whole("WEFT_HEAP_MIB", &Config::heap_mib, "MiB", {0, 1 << 24},
            "address space for weft::allocate, used as touched; 0: as much as physical memory"),
      text("WEFT_SHM_DIR", &Config::shm_dir, "an absolute path", is_directory_path,
           "directory for shared segments; empty: anonymous memory files"),
      choice<HugePageUse>("WEFT_HUGE_PAGES", &Config::huge_pages,
                          {{"auto", HugePageUse::automatic}, {"off", HugePageUse::off}},
                          "huge pages for shared segments where the kernel offers them"),
      choice<ForeignPath>(
          "WEFT_FOREIGN", &Config::foreign,
          {{"auto", ForeignPath::automatic},
           {"cma", ForeignPath::cma},
           {"staging", ForeignPath::staging}},
          "how memory that Weft did not allocate is read: process_vm_readv or copies"),
      choice<bool>("WEFT_TOPO_CHECK", &Config::topo_check, {{"1", true}, {"0", false}},
                   "check that both ends of every edge agree before data moves"),
      text("WEFT_TRACE", &Config::trace, "a path", is_path,
           "file for the timeline (Chrome trace), the rank added to its name; empty: off"),
      choice<LogLevel>("WEFT_LOG", &Config::log,
                       {{"debug", LogLevel::debug},
                        {"info", LogLevel::info},
                        {"warning", LogLevel::warning},
                        {"error", LogLevel::error},
                        {"off", LogLevel::off}},
                       "lowest level of the messages on standard error"),
  };
}

}  // namespace

const std::vector<Variable>& variables() {
  static const std::vector<Variable> table = make_table();
  return table;
}

}  // namespace weft
