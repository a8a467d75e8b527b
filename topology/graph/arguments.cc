// Taking "key=value,…" apart; every complaint names the kind, the key and the value.
#include "topology/graph/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace weft {
namespace {

// Cuts `text` at the first `mark`; the remainder stays in `text`, empty when there is no mark.
std::string_view cut(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return head;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

NameAndRest split_name(std::string_view spec) {
  const std::string_view name = cut(spec, ':');
  return {name, spec};
}

Result<Arguments> Arguments::parse(std::string_view kind, std::string_view text,
                                   const std::vector<std::string_view>& keys) {
  Arguments arguments(kind);
  bool is_first = true;
  while (!text.empty()) {
    std::string_view value = cut(text, ',');
    const std::string argument(value);
    const bool has_key = value.find('=') != std::string_view::npos;
    std::string_view key = has_key ? cut(value, '=') : std::string_view{};
    if (!has_key && is_first && !keys.empty()) key = keys.front();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: unknown argument '{}'; known are: {}", kind, shown(argument),
                                fmt::join(keys, ", ")));
    }
    if (!arguments.values_.emplace(key, value).second) {
      return Status(Code::invalid_argument, fmt::format("{}: '{}' is given twice", kind, key));
    }
    is_first = false;
  }
  return arguments;
}

std::optional<std::string> Arguments::text(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

Result<int> Arguments::integer(std::string_view key, std::optional<int> fallback) const {
  const std::optional<std::string> value = text(key);
  if (!value && fallback) return *fallback;
  if (!value) return missing(key);
  const std::optional<int> parsed = parse_number<int>(*value);
  if (!parsed) return invalid(key, *value);
  return *parsed;
}

Result<double> Arguments::number(std::string_view key) const {
  const std::optional<std::string> value = text(key);
  if (!value) return missing(key);
  const std::optional<double> parsed = parse_number<double>(*value);
  if (!parsed) return invalid(key, *value);
  return *parsed;
}

Result<std::uint64_t> Arguments::seed() const {
  const std::string value = text("seed").value_or("0");
  const std::optional<std::uint64_t> parsed = parse_number<std::uint64_t>(value);
  if (!parsed) return invalid("seed", value);
  return *parsed;
}

Result<std::vector<int>> Arguments::dimensions(std::string_view key) const {
  const std::optional<std::string> value = text(key);
  std::vector<int> dims;
  if (!value) return dims;
  std::string_view rest = *value;
  const auto count = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), 'x')) + 1;
  while (dims.size() < count) {
    const std::optional<int> dim = parse_number<int>(cut(rest, 'x'));
    if (!dim) return invalid(key, *value);
    dims.push_back(*dim);
  }
  return dims;
}

Status Arguments::invalid(std::string_view key, std::string_view value) const {
  return Status(Code::invalid_argument,
                fmt::format("{}: '{}={}' cannot be read", kind_, key, shown(value)));
}

Status Arguments::missing(std::string_view key) const {
  return Status(Code::invalid_argument, fmt::format("{}: needs '{}='", kind_, key));
}

}  // namespace weft
