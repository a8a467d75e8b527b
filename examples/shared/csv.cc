// Parses number after number. A line is accepted as a whole or refused.
#include "examples/shared/csv.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace examples {
namespace {

// Takes the number that the line begins with; nothing if there is none or it is not finite.
std::optional<double> take_number(std::string_view& line) {
  double value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return value;
}

// Appends one row; false if the line is not that many numbers with a comma between each two.
bool append_row(std::string_view line, Table& table) {
  for (std::size_t column = 0; column < table.columns; ++column) {
    if (column > 0) {
      if (!line.starts_with(',')) return false;
      line.remove_prefix(1);
    }
    const auto value = take_number(line);
    if (!value) return false;
    table.values.push_back(*value);
  }
  return line.empty();
}

}  // namespace

weft::Result<Table> read_csv(std::istream& stream, std::size_t columns) {
  Table table{columns, {}};
  std::string line;
  std::getline(stream, line);  // the header
  for (std::size_t row = 0; std::getline(stream, line); ++row) {
    if (!append_row(line, table)) {
      return wrong_row(row, std::to_string(columns) + " numbers, separated by commas");
    }
  }
  if (table.values.empty()) {
    return weft::Status(weft::Code::invalid_argument, "no row after the header");
  }
  return table;
}

weft::Status wrong_row(std::size_t row, const std::string& expected) {
  return {weft::Code::invalid_argument,
          "line " + std::to_string(row + 2) + ": expected " + expected};
}

}  // namespace examples
