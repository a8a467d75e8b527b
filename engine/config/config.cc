// Reading a Config: entries in, fields out, every problem named. What each variable accepts stands
// in variables.cc.
#include "engine/config/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

constexpr std::string_view kPrefix = "WEFT_";
constexpr std::size_t kLongestShown = 80;  // characters of a bad value that an error repeats

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

// Edits (insert, delete, replace) that turn one word into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// Old names that this version still reads.
struct Renamed {
  std::string_view old, now;
};
constexpr std::array<Renamed, 2> kRenamed{
    {{"WEFT_FOREIGN", "WEFT_PRIVATE_MEMORY"}, {"WEFT_GPU_SUMS", "WEFT_GPU_REDUCE"}}};

std::string_view name_now(std::string_view name) {
  const auto found = std::ranges::find(kRenamed, name, &Renamed::old);
  return found == kRenamed.end() ? name : found->now;
}

bool has(const std::vector<std::string>& entries, std::string_view name) {
  return std::ranges::find(entries, name, name_of) != entries.end();
}

bool is_known(std::string_view name) {
  return std::ranges::find(variables(), name, &Variable::name) != variables().end();
}

std::string unknown(std::string_view name) {
  const auto& known = variables();
  const auto closest = std::ranges::min_element(
      known, {}, [&](const Variable& v) { return distance(name, v.name); });
  return fmt::format("{}: no such variable; did you mean {}? (`weft config` lists them)",
                     name.substr(0, kLongestShown), closest->name);
}

Status not_accepted(const Variable& variable, std::string_view value) {
  const std::string shown = variable.secret ? "(secret)"
                            : value.size() <= kLongestShown
                                ? std::string(value)
                                : fmt::format("{}…", value.substr(0, kLongestShown));
  return Status(Code::invalid_argument,
                fmt::format("{}={}: expected {}", variable.name, shown, variable.accepted));
}

Status read_entry(std::string_view entry, Config& config) {
  const std::string_view name = name_now(name_of(entry));
  const std::size_t equals = entry.find('=');
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view{} : entry.substr(equals + 1);
  const auto found = std::ranges::find(variables(), name, &Variable::name);
  return found->read(value, config) ? Status{} : not_accepted(*found, value);
}

}  // namespace

Status Config::set(std::string_view name, std::string_view value) {
  if (!is_known(name_now(name))) return Status(Code::invalid_argument, unknown(name));
  return read_entry(fmt::format("{}={}", name, value), *this);
}

Result<std::string> Config::get(std::string_view name) const {
  const auto found = std::ranges::find(variables(), name_now(name), &Variable::name);
  if (found == variables().end()) return Status(Code::invalid_argument, unknown(name));
  return found->show(*this);
}

Result<Config> Config::from_environment(UnknownNames unknown_names) {
  return from_entries(environment(), unknown_names);
}

Result<Config> Config::from_entries(const std::vector<std::string>& entries,
                                    UnknownNames unknown_names) {
  Config config;
  std::vector<std::string> warnings;  // said once the level of the log is known
  for (const std::string& entry : entries) {
    if (!entry.starts_with(kPrefix)) continue;
    const std::string_view name = name_of(entry);
    const std::string_view now = name_now(name);
    if (name != now) {
      warnings.push_back(fmt::format(
          "{} is called {} now; the next version does not read the old name", name, now));
      if (has(entries, now)) continue;
    }
    if (is_known(now)) {
      WEFT_RETURN_IF_ERROR(read_entry(entry, config));
    } else if (unknown_names == UnknownNames::refuse) {
      return Status(Code::invalid_argument, unknown(name));
    } else {
      warnings.push_back(unknown(name));
    }
  }
  const LogScope scope({config.log, log_voice().rank});
  for (const std::string& warning : warnings) weft::log(LogLevel::warning, warning);
  WEFT_RETURN_IF_ERROR(use_profile(config, [&](const Variable& variable) {
    const auto is_old = [&](const Renamed& renamed) {
      return renamed.now == variable.name && has(entries, renamed.old);
    };
    return has(entries, variable.name) || std::ranges::any_of(kRenamed, is_old);
  }));
  WEFT_RETURN_IF_ERROR(find_launcher(entries, config));
  WEFT_RETURN_IF_ERROR(config.check());
  return config;
}

Status Config::check() const {
  const auto wrong = [](std::string text) {
    return Status(Code::invalid_argument, std::move(text));
  };
  if (lanes > 1 && progress == ProgressMode::waiter) {
    return wrong(
        fmt::format("WEFT_LANES={} needs WEFT_PROGRESS=thread: other lanes than the first "
                    "are driven by threads only",
                    lanes));
  }
  WEFT_RETURN_IF_ERROR(ucx_options(*this).status());
  // Its server knows size and local ranks, and is where the ranks meet.
  if (launcher == Launcher::pmix) return {};
  if (size < 1) return wrong(fmt::format("WEFT_SIZE={}: a job has at least one rank", size));
  if (rank < 0 || rank >= size) {
    return wrong(
        fmt::format("WEFT_RANK={}: a job of WEFT_SIZE={} has ranks 0 to {}", rank, size, size - 1));
  }
  if ((local_rank == kNoRank) != (local_size == 0)) {
    return wrong("WEFT_LOCAL_RANK and WEFT_LOCAL_SIZE: one is set without the other");
  }
  if (local_size > size || local_rank >= std::max(local_size, 1)) {
    return wrong(
        fmt::format("WEFT_LOCAL_RANK={} of WEFT_LOCAL_SIZE={} does not fit a job of {} ranks",
                    local_rank, local_size, size));
  }
  if (size > 1 && rendezvous.empty()) {
    return wrong(
        fmt::format("WEFT_SIZE={} without WEFT_RENDEZVOUS: the ranks cannot find each other; "
                    "set it, or start them with `weft run -n {} -- PROGRAM`",
                    size, size));
  }
  if (!rendezvous.empty() && !parse_address(rendezvous).ok()) {
    return parse_address(rendezvous).status();
  }
  if (!rendezvous.empty() && job_key.empty()) {
    return wrong(
        "WEFT_RENDEZVOUS without WEFT_JOB_KEY: whoever reaches the rendezvous could join; set the "
        "same secret for every rank (for example from `openssl rand -hex 32`)");
  }
  return {};
}

std::vector<std::string> environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    entries.emplace_back(*entry);
  }
  return entries;
}

std::vector<std::string> with_settings(
    std::vector<std::string> entries,
    const std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [name, value] : settings) {
    std::erase_if(entries, [&](const std::string& entry) { return name_of(entry) == name; });
    entries.push_back(fmt::format("{}={}", name, value));
  }
  return entries;
}

bool is_set(const std::vector<std::string>& entries, std::string_view name) {
  return std::ranges::any_of(entries, [&](const std::string& e) { return name_of(e) == name; });
}

}  // namespace weft
