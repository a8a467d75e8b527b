// Numbers that options take. Internal to the commands.
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

}  // namespace weft
