// csv: files of numbers, separated by commas, one row per line after a header line. Reading is
// strict: any deviation from this is an error that names the line. Values and pure functions.
#pragma once

#include <cstddef>
#include <fstream>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace examples {

struct Table {
  std::size_t columns = 0;
  std::vector<double> values;  // row by row; all finite

  [[nodiscard]] std::size_t rows() const { return values.size() / columns; }
  [[nodiscard]] std::span<const double> row(std::size_t number) const {
    return std::span(values).subspan(number * columns, columns);
  }
};

// The table in the stream, at least one row of `columns` numbers (one or more).
weft::Result<Table> read_csv(std::istream& stream, std::size_t columns);

// "line 3: expected …": the error for row 1 of a table.
[[nodiscard]] weft::Status wrong_row(std::size_t row, const std::string& expected);

// The result of `read` for the file at `path`. Errors begin with the path.
template <typename Read>
auto read_file(const std::string& path, Read read)
    -> decltype(read(std::declval<std::istream&>())) {
  std::ifstream file(path);
  if (!file) return weft::Status(weft::Code::invalid_argument, path + ": cannot be read");
  auto result = read(file);
  if (result.ok()) return result;
  return weft::Status(result.status().code(), path + ": " + std::string(result.status().text()));
}

}  // namespace examples
