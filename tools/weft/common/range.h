// What options take. Internal to the commands.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace weft {

// A number within these bounds; "nan" is none. Errors give the value and the bounds.
[[nodiscard]] inline CLI::Validator number_in(double least, double most) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value) || value != value)
          return text + " is no number";
        if (value >= least && value <= most) return std::string();
        return fmt::format("{}: expected {} to {}", text, least, most);
      },
      fmt::format("NUMBER in [{} - {}]", least, most));
}

// A shell script whose variable is not set asks for "": that is no way to leave the option out.
[[nodiscard]] inline CLI::Validator no_empty_text() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
}

}  // namespace weft
