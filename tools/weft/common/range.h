// What options take. Internal to the commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft {

// As CLI::Range, which lets "nan" pass: nothing is below or above it.
[[nodiscard]] inline CLI::Validator number_in(double least, double most) {
  CLI::Validator range = CLI::Range(least, most);
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value) && value == value;
        return is_number ? range(text) : text + " is no number";
      },
      range.get_description());
}

// A shell script whose variable is not set asks for "": that is no way to leave the option out.
[[nodiscard]] inline CLI::Validator no_empty_text() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
}

}  // namespace weft
