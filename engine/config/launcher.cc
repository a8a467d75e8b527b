// How was this process started? The rule, in the order in which it is asked:
//
//   weft      WEFT_RANK is set: by `weft run`, or by hand with WEFT_RENDEZVOUS
//   pmix      PMIX_NAMESPACE and PMIX_RANK are set: mpirun, prterun, srun --mpi=pmix
//   torchrun  RANK and WORLD_SIZE are set, and MASTER_ADDR and MASTER_PORT or WEFT_RENDEZVOUS
//   weft      WEFT_RENDEZVOUS is set: a job of one rank that others can see
//   alone     none of these
//
// WEFT_LAUNCHER asks for one by name; then its variables must be there, and the others' count for
// nothing. Signs of a launcher that started several processes but speaks none of these are an
// error: each of them would believe to be alone.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/config/config.h"

namespace weft {
namespace {

using Entries = std::vector<std::string>;

constexpr int kHighestPort = 65'535;

Status wrong(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

std::string_view value_of(const Entries& entries, std::string_view name) {
  const auto found = std::ranges::find_if(entries, [&](const std::string& entry) {
    return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
  });
  return found == entries.end() ? std::string_view{}
                                : std::string_view(*found).substr(name.size() + 1);
}

bool all_set(const Entries& entries, std::initializer_list<std::string_view> names) {
  return std::ranges::all_of(names, [&](std::string_view name) { return is_set(entries, name); });
}

bool has_pmix(const Entries& entries) {
  return all_set(entries, {"PMIX_NAMESPACE", "PMIX_RANK"});
}

bool has_torchrun(const Entries& entries) {
  return all_set(entries, {"RANK", "WORLD_SIZE"}) &&
         (all_set(entries, {"MASTER_ADDR", "MASTER_PORT"}) || is_set(entries, "WEFT_RENDEZVOUS"));
}

// Reads NAME into `number`, which keeps its value when NAME is not set.
Status read_whole(const Entries& entries, std::string_view name, int& number) {
  if (!is_set(entries, name)) return {};
  const std::string_view text = value_of(entries, name);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && number >= 0) return {};
  return wrong(fmt::format("{}={}: expected a whole number", name, text));
}

void forget_seat(Config& config) {
  const Config fresh;
  config.rank = fresh.rank;
  config.size = fresh.size;
  config.local_rank = fresh.local_rank;
  config.local_size = fresh.local_size;
}

// torch itself listens on MASTER_PORT, in rank 0's process or in torchrun's.
Status read_master(const Entries& entries, Config& config) {
  int port = 0;
  WEFT_RETURN_IF_ERROR(read_whole(entries, "MASTER_PORT", port));
  if (port < 1 || port >= kHighestPort) {
    return wrong(
        fmt::format("MASTER_PORT={}: the rendezvous takes the next port, so 1 to {} are "
                    "possible; or set WEFT_RENDEZVOUS",
                    port, kHighestPort - 1));
  }
  std::string_view host = value_of(entries, "MASTER_ADDR");
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const Address address{std::string(host), static_cast<std::uint16_t>(port + 1)};
  config.rendezvous = address.to_string();
  if (parse_address(config.rendezvous).ok()) return {};
  constexpr std::size_t kLongestShown = 80;
  return wrong(fmt::format("MASTER_ADDR={}: expected the name or the IP address of a host",
                           host.substr(0, kLongestShown)));
}

Status read_torchrun(const Entries& entries, Config& config) {
  if (!has_torchrun(entries)) {
    return wrong(
        "WEFT_LAUNCHER=torchrun: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not all set");
  }
  forget_seat(config);
  WEFT_RETURN_IF_ERROR(read_whole(entries, "RANK", config.rank));
  WEFT_RETURN_IF_ERROR(read_whole(entries, "WORLD_SIZE", config.size));
  if (all_set(entries, {"LOCAL_RANK", "LOCAL_WORLD_SIZE"})) {
    WEFT_RETURN_IF_ERROR(read_whole(entries, "LOCAL_RANK", config.local_rank));
    WEFT_RETURN_IF_ERROR(read_whole(entries, "LOCAL_WORLD_SIZE", config.local_size));
  }
  if (config.size < 1 || config.rank >= config.size) {
    return wrong(
        fmt::format("RANK={} of WORLD_SIZE={}: there is no such rank", config.rank, config.size));
  }
  if (config.job_key.empty()) {
    return wrong(
        "torchrun tells its processes no secret (TORCHELASTIC_RUN_ID is none), so whoever reaches "
        "the rendezvous could join: set WEFT_JOB_KEY to the same secret on all machines before "
        "torchrun (for example from `openssl rand -hex 32`)");
  }
  return config.rendezvous.empty() ? read_master(entries, config) : Status{};
}

Status read_pmix(const Entries& entries, Config& config) {
  if (!has_pmix(entries)) {
    return wrong(
        "WEFT_LAUNCHER=pmix: PMIX_NAMESPACE and PMIX_RANK are not set; start the program "
        "with mpirun, `srun --mpi=pmix` or `weft run`");
  }
  forget_seat(config);
  config.rendezvous.clear();
  return read_whole(entries, "PMIX_RANK", config.rank);
}

// How many processes somebody has started who speaks neither PMIx nor torchrun's variables.
Status check_strangers(const Entries& entries) {
  for (const std::string_view name : std::array{"PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    int count = 0;
    WEFT_RETURN_IF_ERROR(read_whole(entries, name, count));
    if (count < 2) continue;
    return wrong(fmt::format(
        "{}={}: this process has peers, but nothing says how to find them; start it with PMIx "
        "(mpirun of Open MPI, `srun --mpi=pmix`), set WEFT_RANK, WEFT_SIZE and WEFT_RENDEZVOUS, or "
        "WEFT_LAUNCHER=alone",
        name, count));
  }
  return {};
}

Launcher choose(const Entries& entries) {
  if (is_set(entries, "WEFT_RANK")) return Launcher::weft;
  if (has_pmix(entries)) return Launcher::pmix;
  if (has_torchrun(entries)) return Launcher::torchrun;
  return is_set(entries, "WEFT_RENDEZVOUS") ? Launcher::weft : Launcher::alone;
}

std::string_view signs_of(Launcher launcher, const Entries& entries) {
  switch (launcher) {
    case Launcher::automatic:
      break;
    case Launcher::weft:
      return is_set(entries, "WEFT_RANK") ? "WEFT_RANK is set" : "WEFT_RENDEZVOUS is set";
    case Launcher::pmix:
      return "PMIX_NAMESPACE and PMIX_RANK are set";
    case Launcher::torchrun:
      return is_set(entries, "WEFT_RENDEZVOUS")
                 ? "RANK, WORLD_SIZE and WEFT_RENDEZVOUS are set"
                 : "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set";
    case Launcher::alone:
      break;
  }
  return "no launcher's variables are set";
}

std::string others_than(Launcher launcher, const Entries& entries) {
  std::string text;
  if (launcher != Launcher::weft && is_set(entries, "WEFT_RANK")) text += ", weft's";
  if (launcher != Launcher::pmix && has_pmix(entries)) text += ", PMIx's";
  if (launcher != Launcher::torchrun && has_torchrun(entries)) text += ", torchrun's";
  return text.empty() ? text : fmt::format("; not used: {}", text.substr(2));
}

}  // namespace

std::string_view name(Launcher launcher) {
  constexpr std::array<std::string_view, 5> kNames{"automatic", "weft", "pmix", "torchrun",
                                                   "alone"};
  return kNames[static_cast<std::size_t>(launcher)];
}

std::string Config::launch() const {
  if (launcher == Launcher::automatic)
    return rendezvous.empty() ? "alone: no rendezvous is given" : "weft: a rendezvous is given";
  return fmt::format("{}: {}", name(launcher), launcher_reason);
}

Status find_launcher(const Entries& entries, Config& config) {
  const bool is_asked_for = config.launcher != Launcher::automatic;
  if (!is_asked_for) config.launcher = choose(entries);
  if (is_set(entries, "WEFT_RANK") != is_set(entries, "WEFT_SIZE"))
    return wrong("WEFT_RANK and WEFT_SIZE: one is set without the other");
  config.launcher_reason = (is_asked_for ? "asked for by WEFT_LAUNCHER"
                                         : std::string(signs_of(config.launcher, entries))) +
                           others_than(config.launcher, entries);
  switch (config.launcher) {
    case Launcher::pmix:
      return read_pmix(entries, config);
    case Launcher::torchrun:
      return read_torchrun(entries, config);
    case Launcher::weft:
      if (is_set(entries, "WEFT_RANK") || is_set(entries, "WEFT_RENDEZVOUS")) return {};
      return wrong(
          "WEFT_LAUNCHER=weft: neither WEFT_RANK nor WEFT_RENDEZVOUS is set; start the "
          "program with `weft run`");
    case Launcher::automatic:
    case Launcher::alone:
      break;
  }
  if (!is_asked_for) return check_strangers(entries);
  forget_seat(config);
  config.rendezvous.clear();
  return {};
}

}  // namespace weft
