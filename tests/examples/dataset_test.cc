// Reading and dividing the digits.
#include "examples/digits/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

namespace digits {
namespace {

std::string line(const std::string& pixel, const std::string& label) {
  std::string text;
  for (std::size_t i = 0; i < kPixels; ++i) text += pixel + ",";
  return text + label + "\n";
}

weft::Result<Dataset> read(const std::string& text) {
  std::istringstream stream(text);
  return read_dataset(stream);
}

TEST(ReadDataset, ScalesPixelsAndKeepsLabels) {
  const auto data = read("header\n" + line("16", "9") + line("4", "0"));
  ASSERT_TRUE(data.ok()) << data.status().to_string();
  ASSERT_EQ(data->size(), 2U);
  EXPECT_EQ(data->labels, (std::vector<std::size_t>{9, 0}));
  EXPECT_TRUE(std::ranges::all_of(data->image(0), [](float p) { return p == 1.0F; }));
  EXPECT_TRUE(std::ranges::all_of(data->image(1), [](float p) { return p == 0.25F; }));
}

TEST(ReadDataset, NamesTheLineAtFault) {
  const std::string good = "header\n" + line("1", "1");
  for (const std::string& bad : {line("17", "1"), line("-1", "1"), line("1", "10"), line("x", "1"),
                                 line("1", "1,1"), std::string("1,2,3\n"), std::string("\n")}) {
    const auto data = read(good + bad);
    ASSERT_FALSE(data.ok()) << bad;
    EXPECT_EQ(data.status().code(), weft::Code::invalid_argument);
    EXPECT_NE(data.status().text().find("line 3"), std::string_view::npos) << bad;
  }
}

TEST(ReadDataset, AnEmptyFileIsAnError) {
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read("header\n").ok());
}

TEST(Shuffled, TheSeedAloneDecides) {
  const Rows rows{10, 11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(shuffled(rows, 7), shuffled(rows, 7));
  EXPECT_NE(shuffled(rows, 7), shuffled(rows, 8));
  EXPECT_TRUE(std::ranges::is_permutation(shuffled(rows, 7), rows));
  EXPECT_EQ(shuffled({}, 7), Rows{});
}

TEST(Split, EveryRowIsOnOneSide) {
  const Split parts = split(1797, 5, 1);
  EXPECT_EQ(parts.held_out.size(), 359U);
  std::set<std::size_t> all(parts.training.begin(), parts.training.end());
  all.insert(parts.held_out.begin(), parts.held_out.end());
  EXPECT_EQ(parts.training.size() + parts.held_out.size(), 1797U);
  EXPECT_EQ(all.size(), 1797U);
  EXPECT_EQ(*all.rbegin(), 1796U);
}

TEST(Share, RanksDivideTheRows) {
  const Rows rows{5, 6, 7, 8, 9};
  EXPECT_EQ(share(rows, 0, 2), (Rows{5, 7, 9}));
  EXPECT_EQ(share(rows, 1, 2), (Rows{6, 8}));
  EXPECT_EQ(share(rows, 0, 1), rows);
  EXPECT_EQ(share(rows, 6, 7), Rows{});
}

TEST(Batches, EachRoundVisitsEveryRowOnceWhenBatchesFit) {
  const Rows rows{0, 1, 2, 3, 4, 5};
  Batches batches(rows, 2, 1);
  for (int round = 0; round < 3; ++round) {
    Rows seen;
    for (int i = 0; i < 3; ++i) {
      const auto batch = batches.next();
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
    EXPECT_TRUE(std::ranges::is_permutation(seen, rows));
  }
}

TEST(Batches, ABatchLargerThanTheRowsIsAllOfThem) {
  Batches batches({3, 4}, 16, 1);
  EXPECT_EQ(batches.next().size(), 2U);
  EXPECT_EQ(batches.next().size(), 2U);
}

}  // namespace
}  // namespace digits
