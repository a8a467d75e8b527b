// Reading a file of numbers.
#include "examples/shared/csv.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace examples {
namespace {

weft::Result<Table> read(const std::string& text) {
  std::istringstream stream(text);
  return read_csv(stream, 3);
}

TEST(ReadCsv, KeepsRowsAndColumns) {
  const auto table = read("a,b,c\n1,-2.5,3e2\n4,5,6");
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  ASSERT_EQ(table->rows(), 2U);
  EXPECT_EQ(table->values, (std::vector<double>{1, -2.5, 300, 4, 5, 6}));
  EXPECT_EQ(table->row(1)[2], 6);
}

TEST(ReadCsv, NamesTheLineAtFault) {
  for (const char* bad : {"1,2", "1,2,3,4", "1,2,x", "1,2,nan", "1,2,inf", "1,2,1e999", "1,2,3,",
                          "1,,3", "1 2 3", "1,2,3\r", ""}) {
    const auto table = read("a,b,c\n1,2,3\n" + std::string(bad) + "\n");
    ASSERT_FALSE(table.ok()) << bad;
    EXPECT_EQ(table.status().code(), weft::Code::invalid_argument);
    EXPECT_EQ(table.status().text(), "line 3: expected 3 numbers, separated by commas") << bad;
  }
}

TEST(ReadCsv, NoRowIsAnError) {
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read("a,b,c\n").ok());
}

TEST(ReadFile, ErrorsNameThePath) {
  const auto none = read_file("/nonexistent/x.csv", [](std::istream& s) { return read_csv(s, 3); });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().text(), "/nonexistent/x.csv: cannot be read");
}

}  // namespace
}  // namespace examples
