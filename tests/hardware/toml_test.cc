// Files that people write: every complaint says where.
#include "topology/toml/toml.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Toml, ValuesAreTakenByKind) {
  Result<TomlTable> file = parse_toml(
      "name = \"a\"\ncount = 3\nrate = 2.5\nwhole = 4\nis = true\nlist = [1, 2.5]\n[one]\nx = 1\n",
      "f");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(**file->text("name"), "a");
  EXPECT_EQ(**file->integer("count", 0, 9), 3);
  EXPECT_EQ(**file->number("rate", 0, 9), 2.5);
  EXPECT_EQ(**file->number("whole", 0, 9), 4);
  EXPECT_EQ(**file->boolean("is"), true);
  EXPECT_EQ(*file->numbers("list", 0, 9), (std::vector<double>{1, 2.5}));
  EXPECT_FALSE(file->text("absent")->has_value());
  Result<std::vector<TomlTable>> one = file->tables("one");
  ASSERT_TRUE(one.ok());
  ASSERT_EQ(one->size(), 1U);
  EXPECT_TRUE(file->done().ok());
  EXPECT_EQ(one->front().done().text(), "f:8: unknown key 'x'; known are: ");
}

TEST(Toml, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(parse_toml("a = 1\na = 2\n", "f").status().text().substr(0, 4), "f:2:");
  Result<TomlTable> file = parse_toml("a = 1\nb = [1, \"x\"]\nc = nan\n", "f");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->text("a").status().text(), "f:1: a: a text in quotes is wanted");
  EXPECT_EQ(file->integer("a", 2, 3).status().text(), "f:1: a: 1 is not in [2, 3]");
  EXPECT_TRUE(file->numbers("b", 0, 1).status().text().starts_with("f:2:"));
  EXPECT_TRUE(file->number("c", 0, 1).status().text().starts_with("f:3:"));
  EXPECT_TRUE(file->tables("a").status().text().starts_with("f:1:"));
}

TEST(Toml, NestingIsBounded) {
  const std::string deep(100'000, '[');
  EXPECT_FALSE(parse_toml("a = " + deep, "f").ok());
}

TEST(Toml, NamesInNamesAreBounded) {
  std::string dots;
  for (int i = 0; i < 300'000; ++i) dots += "a.";
  EXPECT_EQ(parse_toml("x = 1\n" + dots + "a = 1\n", "f").status().text(),
            "f:2: names are nested too deep");
  EXPECT_EQ(parse_toml("[" + dots + "a]\n", "f").status().text(), "f:1: names are nested too deep");
  const std::string row(200, '.');
  EXPECT_TRUE(parse_toml("# " + row + "\na.b.c = 1.5\n", "f").ok());
}

TEST(Toml, TextsHaveNoControlCharacters) {
  Result<TomlTable> file = parse_toml("a = \"\\u001b[1m\"\nb = [\"x\",\n\"\"\"y\nz\"\"\"]\n", "f");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->text("a").status().text(), "f:1: a: has a control character");
  EXPECT_EQ(file->texts("b").status().text(), "f:3: has a control character");
}

}  // namespace
}  // namespace weft
