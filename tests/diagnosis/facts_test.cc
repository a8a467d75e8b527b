// Facts as JSON: what was written is read again, and what cannot be read says why.
#include <algorithm>

#include "tests/diagnosis/fake_host.h"

namespace weft {
namespace {

bool says(const Status& status, const std::string& part) {
  return status.text().find(part) != std::string_view::npos;
}

TEST(Facts, AreTheSameAfterTheirJourney) {
  const HostFacts& facts = clean_hosts().front();
  const std::string text = facts_to_json(facts);
  const Result<HostFacts> read = facts_from_json(text);
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(facts_to_json(*read), text);
  EXPECT_EQ(read->nics.size(), 2U);
  EXPECT_EQ(read->nics[0].pci.links.size(), 4U);
}

TEST(Facts, ThatAreCutShortSaySo) {
  const std::string text = facts_to_json(clean_hosts().front());
  const Result<HostFacts> read = facts_from_json(text.substr(0, text.size() / 2));
  EXPECT_TRUE(says(read.status(), "cut short")) << read.status().text();
  EXPECT_TRUE(says(facts_from_json("").status(), "empty"));
  EXPECT_TRUE(says(facts_from_json("[1, 2]").status(), "not JSON as"));
  EXPECT_TRUE(says(facts_from_json("{}").status(), "no facts"));
}

TEST(Facts, OfAnotherFormatNameTheirVersion) {
  const Result<HostFacts> read =
      facts_from_json(R"({"format": 7, "weft": "9.1.0", "host": "node3", "nics": "other"})");
  EXPECT_EQ(read.status().code(), Code::mismatch);
  EXPECT_TRUE(says(read.status(), "9.1.0")) << read.status().text();
}

TEST(Facts, OfAnOlderVersionMayLackFields) {
  const Result<HostFacts> read =
      facts_from_json(R"({"format": 1, "host": "node3", "new_one": [1]})");
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->host, "node3");
  EXPECT_EQ(read->locked_bytes, -1);
}

TEST(Facts, WithAWrongValueNameIt) {
  const auto of = [](const std::string& text) {
    return facts_from_json(R"({"format": 1, "host": "a", )" + text + "}").status();
  };
  EXPECT_TRUE(says(of(R"("nics": [{}, {"mtu": "big"}])"), "nics[1].mtu is not a whole number"));
  EXPECT_TRUE(says(of(R"("nics": 3)"), "nics is not a list of"));
  EXPECT_TRUE(says(of(R"("nics": [{"mtu": 99999999999}])"), "nics[0].mtu"));
  EXPECT_TRUE(says(of(R"("now": {"counters": {"a": {"b": []}}})"), "now.counters.a.b is not"));
  EXPECT_TRUE(says(of(R"("is_root": 1)"), "is_root is not true or false"));
}

TEST(Facts, OfAHostThatShowsNothingHaveNoFindings) {
  const std::string root = std::filesystem::path(testing::TempDir()) / "weft-empty-root";
  std::filesystem::create_directories(root);
  const HostFacts facts = read_facts({root, 0});
  EXPECT_TRUE(facts.nics.empty());
  EXPECT_FALSE(facts.not_checked.empty());
  for (const Finding& finding : look_at(facts)) ADD_FAILURE() << finding.what;
  std::filesystem::remove_all(root);
}

TEST(Facts, OfAPortHaveWhatItsFilesSay) {
  const HostFacts& facts = clean_hosts().front();
  ASSERT_EQ(facts.nics.size(), 2U);
  const NicFacts& nic = facts.nics[0];
  EXPECT_EQ(nic.name, "mlx5_0");
  EXPECT_EQ(nic.netdev, "eth0");
  EXPECT_EQ(nic.network, "10.0.0.0/16");
  EXPECT_EQ(nic.ip, "10.0.0.1/16");
  EXPECT_TRUE(nic.usable) << nic.reason;
  EXPECT_EQ(nic.driver, "mlx5_core");
  EXPECT_EQ(nic.firmware, "28.43.1014");
  EXPECT_EQ(nic.ecn, 1 << 3);
  EXPECT_EQ(nic.pci.node, 0);
  EXPECT_EQ(nic.pci.relaxed_ordering, 1);
  ASSERT_EQ(nic.pci.links.size(), 4U);
  EXPECT_EQ(nic.pci.links[3].address, kRootPort[0]);
  EXPECT_NEAR(carried_gbit_per_s(nic), 200, 0.1);
  ASSERT_EQ(facts.peers.size(), 2U);
  EXPECT_EQ(facts.peers[1].nic, "mlx5_1");
  EXPECT_TRUE(facts.peers[1].has_common_bridge);
  EXPECT_EQ(facts.shm_bytes, std::int64_t{263854592} * 512);
}

// What cannot be read without root is said, and is no finding.
TEST(Facts, ThatOnlyRootMayReadAreNotChecked) {
  const FakeFolder folder;
  const FakeHost host(folder.path() / "host", 1);
  std::filesystem::resize_file(host.root() / host.device(kCard[0]) / "config", 64);
  const HostFacts facts = host.facts();
  EXPECT_EQ(facts.nics[0].pci.relaxed_ordering, -1);
  EXPECT_TRUE(std::ranges::any_of(facts.not_checked, [](const NotChecked& each) {
    return each.what == "relaxed ordering of mlx5_0";
  }));
  EXPECT_TRUE(look_at(facts).empty() || look_at(facts).front().check != "relaxed-ordering");
}

}  // namespace
}  // namespace weft
