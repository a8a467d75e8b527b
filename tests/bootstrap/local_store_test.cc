// What only the in-process store has: how it is made. And a store whose rendezvous is mute.
#include "engine/bootstrap/store_client.h"
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

// Its rendezvous takes every request and answers none, as one whose process is stopped.
class MuteStore final : public StoreClient {
 public:
  explicit MuteStore(std::int64_t put_deadline_ms) : StoreClient(1, 2, put_deadline_ms, Fd()) {}

 private:
  Status send(const BoardRequest&, Deadline) override { return {}; }
};
constexpr std::int64_t kHourMs = 3'600'000;

TEST(MuteStore, HoldsRequestsUpForOneDeadlineTogether) {
  MuteStore store(50);
  EXPECT_EQ(store.get_from(0, "first", Deadline::after_ms(50)).status().code(), Code::timed_out);
  const Deadline late = Deadline::after_ms(kHourMs);
  EXPECT_EQ(store.get_from(0, "next", late).status().code(), Code::timed_out);
  EXPECT_EQ(store.put("key", "value").code(), Code::timed_out);
  EXPECT_EQ(store.fence(late).code(), Code::timed_out);
  EXPECT_EQ(store.goodbye(late).code(), Code::timed_out);
  EXPECT_FALSE(late.passed());
}

// The network may be back before the next one ends.
TEST(MuteStore, ARequestThatDoesNotWaitTakesNoTimeFromTheNext) {
  MuteStore store(kHourMs);
  EXPECT_EQ(store.get_from(0, "there?", Deadline::after_ms(0)).status().code(), Code::timed_out);
  const Deadline soon = Deadline::after_ms(200);
  EXPECT_EQ(store.get_from(0, "next", soon).status().code(), Code::timed_out);
  EXPECT_TRUE(soon.passed());
}

// As one whose cable is pulled for a moment while a rank looks now and then whether something is there.
TEST(MuteStore, AShortWaitTakesNoTimeFromTheNext) {
  MuteStore store(kHourMs);
  EXPECT_EQ(store.get_from(0, "there?", Deadline::after_ms(1)).status().code(), Code::timed_out);
  const Deadline soon = Deadline::after_ms(200);
  EXPECT_EQ(store.get_from(0, "next", soon).status().code(), Code::timed_out);
  EXPECT_TRUE(soon.passed());
}

TEST(MuteStore, IsNotWaitedForLongerThanADeadlineWhenARankLeaves) {
  MuteStore store(1);
  const Deadline late = Deadline::after_ms(kHourMs);
  EXPECT_EQ(store.goodbye(late).code(), Code::timed_out);
  EXPECT_FALSE(late.passed());
}

}  // namespace
}  // namespace weft::testing
