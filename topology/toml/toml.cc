// toml++ behind a face that knows where everything stands in the file.
#include "topology/toml/toml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>

#include "topology/text/text.h"

namespace weft {
namespace {

// A file that people write; more is something else.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr int kMostDots = 64;

Status complaint(const std::string& file, const toml::source_region& where, std::string_view what) {
  return Status(Code::invalid_argument, fmt::format("{}:{}: {}", file, where.begin.line, what));
}

// Where names joined by dots ("a.b.c = 1") nest too deep: toml++ makes a table for each, and its
// tables end each other recursively. A row of dots, as people draw in comments, counts once.
std::optional<std::size_t> deepest_name(std::string_view text) {
  int dots = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\n' || text[i] == '=' || text[i] == ',') dots = 0;
    if (text[i] == '.' && text[i - 1] != '.' && ++dots > kMostDots) return i;
  }
  return std::nullopt;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

struct TomlTable::Place {
  std::shared_ptr<const toml::table> file;
  const toml::table* table;
  std::string name;  // of the file
};

TomlTable::TomlTable(std::unique_ptr<Place> place) : place_(std::move(place)) {}
TomlTable::~TomlTable() = default;
TomlTable::TomlTable(TomlTable&&) noexcept = default;
TomlTable& TomlTable::operator=(TomlTable&&) noexcept = default;

int TomlTable::line() const {
  return static_cast<int>(place_->table->source().begin.line);
}

Status TomlTable::wrong(std::string_view what) const {
  return complaint(place_->name, place_->table->source(), what);
}

Status TomlTable::wrong(std::string_view key, std::string_view what) const {
  const toml::node* node = place_->table->get(key);
  return complaint(place_->name, node != nullptr ? node->source() : place_->table->source(),
                   fmt::format("{}: {}", key, what));
}

bool TomlTable::has(std::string_view key) {
  asked_.emplace(key);
  return place_->table->contains(key);
}

Result<std::optional<std::string>> TomlTable::text(std::string_view key) {
  if (!has(key)) return std::optional<std::string>{};
  const toml::node* node = place_->table->get(key);
  if (!node->is_string()) return wrong(key, "a text in quotes is wanted");
  std::string text = node->as_string()->get();
  if (std::ranges::any_of(text, is_control)) return wrong(key, "has a control character");
  return std::optional<std::string>(std::move(text));
}

Result<std::optional<std::int64_t>> TomlTable::integer(std::string_view key, std::int64_t least,
                                                       std::int64_t most) {
  if (!has(key)) return std::optional<std::int64_t>{};
  const toml::node* node = place_->table->get(key);
  if (!node->is_integer()) return wrong(key, "a whole number is wanted");
  const std::int64_t value = node->as_integer()->get();
  if (value < least || value > most)
    return wrong(key, fmt::format("{} is not in [{}, {}]", value, least, most));
  return std::optional<std::int64_t>(value);
}

Result<std::optional<double>> TomlTable::number(std::string_view key, double least, double most) {
  if (!has(key)) return std::optional<double>{};
  const toml::node* node = place_->table->get(key);
  const std::optional<double> value = node->value<double>();
  if (!node->is_number() || !value) return wrong(key, "a number is wanted");
  if (!(*value >= least && *value <= most))
    return wrong(key, fmt::format("{} is not in [{}, {}]", *value, least, most));
  return value;
}

Result<std::optional<bool>> TomlTable::boolean(std::string_view key) {
  if (!has(key)) return std::optional<bool>{};
  const toml::node* node = place_->table->get(key);
  if (!node->is_boolean()) return wrong(key, "true or false is wanted");
  return std::optional<bool>(node->as_boolean()->get());
}

Result<std::vector<std::string>> TomlTable::texts(std::string_view key) {
  std::vector<std::string> found;
  if (!has(key)) return found;
  const toml::array* list = place_->table->get(key)->as_array();
  if (list == nullptr) return wrong(key, "a list of texts is wanted");
  for (const toml::node& each : *list) {
    if (!each.is_string()) return complaint(place_->name, each.source(), "a text is wanted here");
    found.push_back(each.as_string()->get());
    if (std::ranges::any_of(found.back(), is_control))
      return complaint(place_->name, each.source(), "has a control character");
  }
  return found;
}

Result<std::vector<double>> TomlTable::numbers(std::string_view key, double least, double most) {
  std::vector<double> found;
  if (!has(key)) return found;
  const toml::array* list = place_->table->get(key)->as_array();
  if (list == nullptr) return wrong(key, "a list of numbers is wanted");
  for (const toml::node& each : *list) {
    const std::optional<double> value = each.value<double>();
    if (!each.is_number() || !value || !(*value >= least && *value <= most)) {
      return complaint(place_->name, each.source(),
                       fmt::format("a number in [{}, {}] is wanted here", least, most));
    }
    found.push_back(*value);
  }
  return found;
}

Result<std::vector<TomlTable>> TomlTable::tables(std::string_view key) {
  std::vector<TomlTable> found;
  if (!has(key)) return found;
  const auto add = [&](const toml::table* table) {
    found.push_back(TomlTable(std::make_unique<Place>(Place{place_->file, table, place_->name})));
  };
  const toml::node* node = place_->table->get(key);
  if (node->is_table()) {
    add(node->as_table());
    return found;
  }
  if (!node->is_array()) return wrong(key, fmt::format("tables [[{}]] are wanted", key));
  for (const toml::node& each : *node->as_array()) {
    if (!each.is_table()) return complaint(place_->name, each.source(), "a table is wanted here");
    add(each.as_table());
  }
  return found;
}

Status TomlTable::done() const {
  for (const auto& [key, node] : *place_->table) {
    if (asked_.contains(key.str())) continue;
    return complaint(
        place_->name, key.source(),
        fmt::format("unknown key '{}'; known are: {}", key.str(), fmt::join(asked_, ", ")));
  }
  return {};
}

Result<TomlTable> parse_toml(std::string_view text, const std::string& name) {
  if (const std::optional<std::size_t> at = deepest_name(text); at) {
    return Status(Code::invalid_argument,
                  fmt::format("{}:{}: names are nested too deep", name, line_at(text, *at)));
  }
  try {
    auto file = std::make_shared<const toml::table>(toml::parse(text, name));
    const toml::table* whole = file.get();
    return TomlTable(
        std::make_unique<TomlTable::Place>(TomlTable::Place{std::move(file), whole, name}));
  } catch (const toml::parse_error& error) {  // the library's only way to say so
    return complaint(name, error.source(), error.description());
  }
}

Result<TomlTable> read_toml(const std::string& path) {
  WEFT_ASSIGN(const std::string text, read_text(path, kMostBytes));
  return parse_toml(text, path);
}

}  // namespace weft
