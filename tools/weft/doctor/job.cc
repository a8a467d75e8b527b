// A job's hosts, by its store:
//
//   all ranks    meet, then tell their machine, their clock and where they run
//   rank 0       wants facts of the first rank of each machine
//   those ranks  tell of their host
#include <fmt/format.h>
#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "engine/bootstrap/bootstrap.h"
#include "tools/weft/doctor/collect.h"

namespace weft {
namespace {

constexpr const char* kWanted = "doctor/wanted";  // numbers of ranks, a line each
std::string facts_key(Rank rank) {
  return fmt::format("doctor/facts/{}", rank);
}
std::string rank_key(Rank rank) {
  return fmt::format("doctor/rank/{}", rank);
}

// Three lines: what names the rank's machine, its clock, and where it runs.
struct RankWord {
  std::string machine;
  std::int64_t clock_ns = 0;
  RankFacts facts;
};

std::string written(const RankWord& word) {
  return fmt::format("{}\n{}\n{}", word.machine, word.clock_ns, rank_to_json(word.facts));
}

Result<RankWord> read_word(const std::string& text) {
  std::istringstream stream(text);
  RankWord word;
  std::string clock, rest;
  if (!std::getline(stream, word.machine) || !std::getline(stream, clock) ||
      !std::getline(stream, rest) ||
      std::from_chars(clock.data(), clock.data() + clock.size(), word.clock_ns).ec != std::errc{})
    return Status(Code::mismatch, "tells nothing that this weft reads");
  WEFT_ASSIGN(word.facts, rank_from_json(rest));
  return word;
}

// What tells machines apart, as the engine does (docs/glossary.md).
std::string this_machine_of(const Config& config) {
  if (!config.host.empty()) return config.host;
  utsname names{};
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return ::uname(&names) == 0 ? fmt::format("{} {}", names.nodename, boot) : boot;
}

// Rank 0's view.
class Gathering {
 public:
  Gathering(Store& store, Deadline deadline) : store_(store), deadline_(deadline) {}

  // `met_ns`: when all ranks had not yet met, by this host's clock; 0: they have not met.
  void hear_ranks(std::int64_t met_ns) {
    for (Rank rank = 0; rank < store_.size(); ++rank) {
      if (const Status status = hear(rank, met_ns); !status.ok())
        found_.missing.push_back({fmt::format("rank {}", rank), std::string(status.text())});
    }
  }

  [[nodiscard]] std::string wanted() const {
    std::string text;
    for (const auto& [name, machine] : machines_)
      text += fmt::format("{}\n", machine.ranks.front().rank);
    return text;
  }

  Collected hear_hosts(Deadline deadline) {
    for (auto& [name, machine] : machines_) {
      const Rank first = machine.ranks.front().rank;
      Result<std::string> told = store_.get_from(first, facts_key(first), deadline);
      Result<HostFacts> facts =
          told.ok() ? facts_from_json(*told) : Result<HostFacts>(told.status());
      if (!facts.ok()) {
        found_.missing.push_back(
            {fmt::format("the host of rank {}", first), std::string(facts.status().text())});
        continue;
      }
      give_gpus(machine.ranks, *facts);
      facts->ranks = std::move(machine.ranks);
      facts->clock_least_s = machine.clock_least_s;
      facts->clock_most_s = machine.clock_most_s;
      found_.hosts.push_back(*std::move(facts));
    }
    std::ranges::sort(found_.hosts, {},
                      [](const HostFacts& facts) { return facts.ranks.front().rank; });
    return std::move(found_);
  }

 private:
  struct Machine {
    std::vector<RankFacts> ranks;
    std::optional<double> clock_least_s, clock_most_s;
  };

  Status hear(Rank rank, std::int64_t met_ns) {
    WEFT_ASSIGN(const std::string text, store_.get_from(rank, rank_key(rank), deadline_));
    const std::int64_t heard_ns = wall_clock_ns();
    WEFT_ASSIGN(RankWord word, read_word(text));
    Machine& machine = machines_[word.machine];
    machine.ranks.push_back(std::move(word.facts));
    if (met_ns == 0 || machine.clock_least_s) return {};
    constexpr double kNanosecond = 1e-9;
    machine.clock_least_s = static_cast<double>(word.clock_ns - heard_ns) * kNanosecond;
    machine.clock_most_s = static_cast<double>(word.clock_ns - met_ns) * kNanosecond;
    return {};
  }

  // Those to whom nobody gave a GPU take them in turn.
  static void give_gpus(std::vector<RankFacts>& ranks, const HostFacts& facts) {
    int next = 0;
    for (RankFacts& rank : ranks) {
      if (rank.gpu == Config::kUsualGpu)
        rank.gpu = facts.gpus.empty() ? -1 : next % static_cast<int>(facts.gpus.size());
      ++next;
    }
  }

  Store& store_;
  const Deadline deadline_;
  Collected found_;
  std::map<std::string, Machine> machines_;
};

// Whether a line is this rank's number.
bool names(const std::string& wanted, Rank rank) {
  std::istringstream stream(wanted);
  const std::string own = std::to_string(rank);
  for (std::string line; std::getline(stream, line);)
    if (line == own) return true;
  return false;
}

}  // namespace

Result<JobFacts> collect_job(Config config) {
  constexpr std::int64_t kGraceMs = 2000;
  WEFT_ASSIGN(const std::shared_ptr<Store> store, open_store(config));
  const Rank rank = store->rank();
  const Deadline deadline = Deadline::after_ms(config.deadline_ms);
  RankWord word{this_machine_of(config), 0, {rank, own_cpus(), config.gpu}};
  const std::int64_t before_ns = wall_clock_ns();
  const Status met = store->fence(deadline);
  word.clock_ns = wall_clock_ns();
  WEFT_RETURN_IF_ERROR(store->put(rank_key(rank), written(word)));
  // A rank that never comes took all the time; those that came have told by then.
  JobFacts job;
  job.leads = rank == 0;
  Gathering gathering(*store, met.ok() ? deadline : Deadline::after_ms(kGraceMs));
  if (job.leads) {
    gathering.hear_ranks(met.ok() ? before_ns : 0);
    WEFT_RETURN_IF_ERROR(store->put(kWanted, gathering.wanted()));
  }
  const Deadline end = Deadline::after_ms(config.deadline_ms);
  WEFT_ASSIGN(const std::string wanted, store->get_from(0, kWanted, end));
  if (names(wanted, rank))
    WEFT_RETURN_IF_ERROR(store->put(facts_key(rank), facts_to_json(facts_here(config, {}))));
  if (job.leads) job.found = gathering.hear_hosts(end);
  (void)store->fence(met.ok() ? end : Deadline::after_ms(kGraceMs));
  (void)store->goodbye(Deadline::after_ms(config.deadline_ms));
  return job;
}

}  // namespace weft
