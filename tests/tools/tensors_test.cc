// The sets of tensors of `weft perf named`: models of papers, and files.
#include "tools/weft/perf/tensors.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/tools/folder.h"

namespace weft {
namespace {

TEST(TensorSet, ModelsHaveTheParametersOfTheirPapers) {
  const TensorSet resnet = tensor_set("resnet50").value();
  EXPECT_EQ(resnet.tensors.size(), 161U);
  EXPECT_EQ(resnet.count(), 25'557'032U);
  const TensorSet bert = tensor_set("bert").value();
  EXPECT_EQ(bert.tensors.size(), 199U);
  EXPECT_EQ(bert.count(), 109'482'240U);
  std::set<std::string> names;
  for (const TensorSet::Tensor& each : bert.tensors) EXPECT_TRUE(names.insert(each.name).second);
}

TEST(TensorSet, EqualOnes) {
  const TensorSet many = tensor_set("1000x1024").value();
  EXPECT_EQ(many.tensors.size(), 1000U);
  EXPECT_EQ(many.count(), 1'024'000U);
}

TEST(TensorSet, OfAFile) {
  const Folder folder;
  folder.write("model", "# two layers\n\nlayer 1.weight\t3x4x5\n  layer 1.bias 4 \r\n");
  const Result<TensorSet> set = tensor_set(folder.path("model"));
  ASSERT_TRUE(set.ok()) << set.status().to_string();
  ASSERT_EQ(set->tensors.size(), 2U);
  EXPECT_EQ(set->tensors[0].name, "layer 1.weight");
  EXPECT_EQ(set->tensors[0].count, 60U);
  EXPECT_EQ(set->tensors[1].name, "layer 1.bias");
  EXPECT_EQ(set->tensors[1].count, 4U);
}

TEST(TensorSet, WhatIsWrongWithAFileIsNamed) {
  const Folder folder;
  const auto said = [&](const std::string& text, const std::string& what) {
    folder.write("model", text);
    const Status status = tensor_set(folder.path("model")).status();
    EXPECT_EQ(status.code(), Code::invalid_argument) << text;
    EXPECT_NE(status.text().find(what), std::string_view::npos) << status.text();
    EXPECT_NE(status.text().find(folder.path("model")), std::string_view::npos) << status.text();
  };
  said("a 3x4\nb 3y4\n", "line 2: expected a name and a shape such as 64x3x7x7, not b 3y4");
  said("a 0\n", "line 1");
  said("a 3\na 3\n", "line 2: a comes twice");
  said("a 99999999x99999999\n", "line 1");
  said("# nothing\n", "no tensor is in it");
  said("34\n", "line 1");
  EXPECT_NE(tensor_set("resnet51").status().text().find("neither a set"), std::string_view::npos);
  EXPECT_FALSE(tensor_set("0x5").ok());
  EXPECT_FALSE(tensor_set("999999999x5").ok());
}

}  // namespace
}  // namespace weft
