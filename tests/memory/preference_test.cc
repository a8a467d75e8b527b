// Where the kernel is asked to put memory.
#include "verbs/memory/preference.h"

#include <gtest/gtest.h>

#include "tests/memory/preferred_node.h"

namespace weft {
namespace {

TEST(MemoryPreference, HoldsWhileItLives) {
  EXPECT_TRUE(MemoryPreference(-1).status().ok());
  {
    const MemoryPreference here(0);
    // Containers may forbid it; that is told and nothing more.
    if (!here.status().ok()) GTEST_SKIP() << here.status().to_string();
    EXPECT_EQ(preferred_node(), 0);
    const MemoryPreference nowhere(-1);
    EXPECT_EQ(preferred_node(), 0) << "no wish of its own";
  }
  EXPECT_EQ(preferred_node(), -1);
}

TEST(MemoryPreference, ANodeThatIsNotThereIsTold) {
  if (!MemoryPreference(0).status().ok()) GTEST_SKIP() << "it cannot be asked for";
  EXPECT_EQ(MemoryPreference(1000).status().code(), Code::system);
  EXPECT_EQ(preferred_node(), -1);
}

}  // namespace
}  // namespace weft
