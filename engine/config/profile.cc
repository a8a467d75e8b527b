// profile: reading, writing, and taking its settings.
#include "engine/config/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/config.h"
#include "topology/text/text.h"
#include "topology/toml/toml.h"

namespace weft {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr double kMostUs = 1e12;
constexpr double kMostTimes = 1e6;
constexpr std::int64_t kMostRounds = 1'000'000;
constexpr std::int64_t kMostTensor = std::int64_t{1} << 40;

// A key that every file has.
Result<std::string> required(TomlTable& table, std::string_view key) {
  WEFT_ASSIGN(std::optional<std::string> text, table.text(key));
  if (!text) return table.wrong(fmt::format("{} is missing", key));
  return *std::move(text);
}

Result<double> number_or_zero(TomlTable& table, std::string_view key, double most) {
  WEFT_ASSIGN(const std::optional<double> value, table.number(key, 0, most));
  return value.value_or(0);
}

Result<int> rounds_of(TomlTable& table) {
  WEFT_ASSIGN(const std::optional<std::int64_t> rounds, table.integer("rounds", 0, kMostRounds));
  return static_cast<int>(rounds.value_or(0));
}

const Variable& variable_of(std::string_view name) {
  return *std::ranges::find(variables(), name, &Variable::name);
}

Status read_settings(TomlTable& table, Profile& profile) {
  for (const std::string_view name : tuned_variables()) {
    WEFT_ASSIGN(const std::optional<std::string> value, table.text(name));
    if (!value) continue;
    Config scratch;
    const Variable& variable = variable_of(name);
    if (!variable.read(*value, scratch))
      return table.wrong(name, fmt::format("\"{}\": expected {}", *value, variable.accepted));
    profile.settings.emplace_back(name, *value);
  }
  return table.done();
}

Result<Profile::Tried> read_tried(TomlTable& table) {
  Profile::Tried tried;
  WEFT_ASSIGN(tried.setting, required(table, "setting"));
  WEFT_ASSIGN(tried.value, required(table, "value"));
  WEFT_ASSIGN(tried.usual, required(table, "default"));
  WEFT_ASSIGN(tried.where, required(table, "where"));
  WEFT_ASSIGN(tried.times, number_or_zero(table, "times", kMostTimes));
  WEFT_ASSIGN(tried.rounds, rounds_of(table));
  WEFT_ASSIGN(const std::optional<bool> taken, table.boolean("taken"));
  tried.is_taken = taken.value_or(false);
  WEFT_RETURN_IF_ERROR(table.done());
  return tried;
}

Result<Profile::Row> read_row(TomlTable& table) {
  Profile::Row row;
  WEFT_ASSIGN(row.operation, required(table, "operation"));
  WEFT_ASSIGN(const std::optional<std::int64_t> bytes, table.integer("bytes", 0, kMostTensor));
  row.bytes = static_cast<std::size_t>(bytes.value_or(0));
  WEFT_ASSIGN(row.usual_us, number_or_zero(table, "default_us", kMostUs));
  WEFT_ASSIGN(row.us, number_or_zero(table, "us", kMostUs));
  WEFT_ASSIGN(row.times, number_or_zero(table, "times", kMostTimes));
  WEFT_ASSIGN(row.rounds, rounds_of(table));
  WEFT_RETURN_IF_ERROR(table.done());
  return row;
}

Status read_end(TomlTable& file, Profile& profile) {
  WEFT_ASSIGN(std::vector<TomlTable> ends, file.tables("end"));
  if (ends.empty())
    return file.wrong(
        "the file is cut short: it does not end with [end], as `weft tune` writes it");
  WEFT_ASSIGN(const std::optional<bool> complete, ends.front().boolean("complete"));
  if (!complete) return ends.front().wrong("the file is cut short: [end] does not say complete");
  profile.is_complete = *complete;
  return ends.front().done();
}

bool is_hash(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<Profile> read_tables(TomlTable file) {
  Profile profile;
  WEFT_ASSIGN(const std::optional<std::int64_t> format, file.integer("format", 0, kMostRounds));
  if (!format) return file.wrong("format is missing: this is no profile of `weft tune`");
  if (*format != kFormat) {
    return file.wrong("format", fmt::format("this weft reads profiles of format {}, not {}; run "
                                            "`weft tune` again",
                                            kFormat, *format));
  }
  WEFT_RETURN_IF_ERROR(read_end(file, profile));
  WEFT_ASSIGN(profile.weft, required(file, "weft"));
  WEFT_ASSIGN(profile.topology, required(file, "topology"));
  if (!is_hash(profile.topology)) return file.wrong("topology", "a hash of 16 digits is wanted");
  WEFT_ASSIGN(profile.about, required(file, "about"));
  WEFT_ASSIGN(profile.seconds, number_or_zero(file, "seconds", kMostUs));
  WEFT_ASSIGN(profile.times, number_or_zero(file, "times", kMostTimes));
  WEFT_ASSIGN(std::vector<TomlTable> settings, file.tables("settings"));
  for (TomlTable& table : settings) WEFT_RETURN_IF_ERROR(read_settings(table, profile));
  WEFT_ASSIGN(std::vector<TomlTable> tried, file.tables("tried"));
  for (TomlTable& table : tried) {
    WEFT_ASSIGN(Profile::Tried each, read_tried(table));
    profile.tried.push_back(std::move(each));
  }
  WEFT_ASSIGN(std::vector<TomlTable> rows, file.tables("row"));
  for (TomlTable& table : rows) {
    WEFT_ASSIGN(Profile::Row row, read_row(table));
    profile.rows.push_back(std::move(row));
  }
  WEFT_RETURN_IF_ERROR(file.done());
  return profile;
}

}  // namespace

const std::vector<std::string_view>& tuned_variables() {
  static const std::vector<std::string_view> names{
      "WEFT_ALLREDUCE",      "WEFT_EAGER_BYTES", "WEFT_PIECE_BYTES", "WEFT_RAIL_SLOTS",
      "WEFT_SLOTS",          "WEFT_LANES",       "WEFT_SPIN_NS",     "WEFT_YIELD_US",
      "WEFT_IB_QUEUE_PAIRS", "WEFT_FUSION_BYTES"};
  return names;
}

Result<Profile> parse_profile(std::string_view text, const std::string& name) {
  WEFT_ASSIGN(TomlTable file, parse_toml(text, name));
  return read_tables(std::move(file));
}

Result<Profile> read_profile(const std::string& path) {
  WEFT_ASSIGN(const std::string text, read_text(path, kMostBytes));
  return parse_profile(text, path);
}

std::string to_toml(const Profile& profile) {
  std::string text = fmt::format(
      "# Written by weft tune: WEFT_PROFILE names this file, `weft tune --explain` shows it.\n"
      "format = {}\nweft = \"{}\"\ntopology = \"{}\"\nabout = \"{}\"\nseconds = {:.1f}\n"
      "times = {:.3f}\n\n[settings]\n",
      kFormat, profile.weft, profile.topology, profile.about, profile.seconds, profile.times);
  for (const auto& [name, value] : profile.settings)
    text += fmt::format("{} = \"{}\"\n", name, value);
  for (const Profile::Tried& tried : profile.tried) {
    text += fmt::format(
        "\n[[tried]]\nsetting = \"{}\"\nvalue = \"{}\"\ndefault = \"{}\"\nwhere = \"{}\"\n"
        "times = {:.3f}\nrounds = {}\ntaken = {}\n",
        tried.setting, tried.value, tried.usual, tried.where, tried.times, tried.rounds,
        tried.is_taken);
  }
  for (const Profile::Row& row : profile.rows) {
    text += fmt::format(
        "\n[[row]]\noperation = \"{}\"\nbytes = {}\ndefault_us = {:.2f}\nus = {:.2f}\n"
        "times = {:.3f}\nrounds = {}\n",
        row.operation, row.bytes, row.usual_us, row.us, row.times, row.rounds);
  }
  return text + fmt::format("\n[end]\ncomplete = {}\n", profile.is_complete);
}

Status use_profile(Config& config, const std::function<bool(const Variable&)>& has_user_set) {
  if (config.profile.empty() || !config.profile_topology.empty()) return {};
  const auto with_name = [](const Status& status) {
    return Status(status.code(), fmt::format("WEFT_PROFILE: {}", status.text()));
  };
  const Result<std::string> text = read_text(config.profile, kMostBytes);
  if (!text.ok()) return with_name(text.status());
  const Result<Profile> profile = parse_profile(*text, config.profile);
  if (!profile.ok()) return with_name(profile.status());
  for (const auto& [name, value] : profile->settings) {
    const Variable& variable = variable_of(name);
    if (!has_user_set(variable)) (void)variable.read(value, config);
  }
  config.profile_topology = profile->topology;
  config.profile_checksum = fnv1a64(*text);
  return {};
}

Status use_profile(Config& config) {
  const Config before = config;
  return use_profile(config, [&before](const Variable& variable) {
    return variable.show(before) != variable.show(Config{});
  });
}

}  // namespace weft
