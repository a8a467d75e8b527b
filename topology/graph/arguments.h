// Parses the text "name:key=value,…" for make_graph and make_schedule. Internal. If the first
// argument has no key, it belongs to the kind's first key: "grid:4x4" is "grid:shape=4x4".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

// "exponential:base=4" is {"exponential", "base=4"}.
struct NameAndRest {
  std::string_view name;
  std::string_view rest;
};
[[nodiscard]] NameAndRest split_name(std::string_view spec);

// So much of what somebody wrote as an error repeats.
[[nodiscard]] inline std::string_view shown(std::string_view text) {
  return text.substr(0, 80);
}

class Arguments {
 public:
  // `keys` are the keys that `kind` knows. Any other key is an error that lists them.
  static Result<Arguments> parse(std::string_view kind, std::string_view text,
                                 const std::vector<std::string_view>& keys);

  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  // The number under `key`, or `fallback`; without a fallback the key is required.
  Result<int> integer(std::string_view key, std::optional<int> fallback = std::nullopt) const;
  Result<double> number(std::string_view key) const;
  Result<std::uint64_t> seed() const;
  // "4x2x8" under `key`; empty when absent.
  Result<std::vector<int>> dimensions(std::string_view key) const;

 private:
  explicit Arguments(std::string_view kind) : kind_(kind) {}
  [[nodiscard]] Status invalid(std::string_view key, std::string_view value) const;
  [[nodiscard]] Status missing(std::string_view key) const;

  std::string kind_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace weft
