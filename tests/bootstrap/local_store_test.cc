// What only the in-process store has: how it is made.
#include "tests/bootstrap/stores.h"

namespace weft::testing {
namespace {

TEST(LocalStore, NeedsARank) {
  EXPECT_EQ(make_local_stores(0).status().code(), Code::invalid_argument);
  EXPECT_EQ(make_local_stores(-3).status().code(), Code::invalid_argument);
}

TEST(LocalStore, IsWhatAJobOfOneRankOpens) {
  Config config;
  const auto store = open_store(config);
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_EQ((*store)->rank(), 0);
  EXPECT_EQ((*store)->size(), 1);
}

TEST(OpenStore, AsksTheConfigurationFirst) {
  Config config;
  config.size = 2;
  EXPECT_EQ(open_store(config).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace weft::testing
