// InfiniBand networks as ibnetdiscover prints them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "topology/cluster/cluster.h"

namespace weft {
namespace {

// Leaves of `per_leaf` hosts below one spine, with two links up from each; a host has two adapters.
std::string network(int leaves, int per_leaf) {
  std::string text = "#\n# Topology file: generated on Tue Jun  5 14:15:10 2007\n#\n";
  const auto leaf_of = [](int leaf) { return fmt::format("S-{:016x}", 0x1000 + leaf); };
  const auto card_of = [](int host, int card) {
    return fmt::format("H-{:016x}", 0x2000 + 2 * host + card);
  };
  for (int leaf = 0; leaf < leaves; ++leaf) {
    text +=
        fmt::format("\nvendid=0x2c9\nSwitch\t40 \"{}\"\t\t# \"leaf {}\" base port 0 lid {} lmc 0\n",
                    leaf_of(leaf), leaf, leaf);
    for (int link = 0; link < 2; ++link)
      text += fmt::format("[{}]\t\"S-0000000000009999\"[{}]\t\t# \"spine\" lid 99 4xHDR\n",
                          30 + link, 2 * leaf + link + 1);
  }
  text += "\nSwitch\t40 \"S-0000000000009999\"\t\t# \"spine\" base port 0 lid 99 lmc 0\n";
  for (int host = 0; host < leaves * per_leaf; ++host) {
    for (int card = 0; card < 2; ++card) {
      text += fmt::format(
          "\nvendid=0x2c9\nCa\t1 \"{}\"\t\t# \"node{} mlx5_{}\"\n[1](98039b0300abcdef) "
          "\t\"{}\"[{}]\t\t# lid 7 "
          "lmc 0 \"leaf\" lid 1 {}\n",
          card_of(host, card), host, card, leaf_of(host / per_leaf), host + 1,
          card == 0 ? "4xHDR" : "2xHDR");
    }
  }
  return text;
}

class Ibnet : public testing::Test {
 protected:
  ~Ibnet() override { std::filesystem::remove(path_); }
  Result<Cluster> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_cluster(path_);
  }
  const std::string path_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("ibnet-{}", getpid());
};

TEST_F(Ibnet, HostsRatesAndLeaves) {
  const Result<Cluster> cluster = read(network(3, 4));
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  ASSERT_EQ(cluster->machines.size(), 12U);
  EXPECT_EQ(cluster->machines[10].name, "node10");
  EXPECT_EQ(cluster->machines[0].hardware, cluster->machines[11].hardware)
      << "equal hosts are one kind";
  ASSERT_EQ(cluster->rails.size(), 2U);
  EXPECT_DOUBLE_EQ(cluster->rails[0].gbit_per_s[5], 200);
  EXPECT_DOUBLE_EQ(cluster->rails[1].gbit_per_s[5], 100);
  ASSERT_EQ(cluster->rails[0].levels.size(), 1U);
  EXPECT_EQ(cluster->rails[0].levels[0].machines, 4);
  EXPECT_DOUBLE_EQ(cluster->rails[0].levels[0].gbit_per_s, 400.0 * 2 / 3);  // of two rails
  EXPECT_DOUBLE_EQ(cluster->rails[1].levels[0].gbit_per_s, 400.0 / 3);
}

TEST_F(Ibnet, LeavesThatTheModelCannotTellAreSaid) {
  std::string text = network(2, 3);
  // The second adapter of node1 hangs on the other leaf.
  const std::size_t host = text.find("node1 mlx5_1");
  text.replace(text.find("S-0000000000001000", host), 18, "S-0000000000001001");
  const Result<Cluster> cluster = read(text);
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  EXPECT_EQ(cluster->machines.size(), 6U);
  EXPECT_EQ(cluster->rails[0].levels.size(), 1U);
  EXPECT_TRUE(cluster->rails[1].levels.empty());
  EXPECT_NE(cluster->remarks[0].find("rail 1: leaves"), std::string::npos) << cluster->remarks[0];
}

TEST_F(Ibnet, OneLeafHasNoLevel) {
  const Result<Cluster> cluster = read(network(1, 4));
  ASSERT_TRUE(cluster.ok());
  EXPECT_TRUE(cluster->rails[0].levels.empty());
}

TEST_F(Ibnet, WhatIsWrongIsNamedWithItsLine) {
  const std::string whole = network(2, 2);
  const auto complaint = [this](const std::string& text) {
    return read(text).status().to_string();
  };
  const std::string early = complaint(whole.substr(0, whole.find("\nCa\t")));
  EXPECT_NE(early.find("no adapter (Ca): the file is cut short"), std::string::npos) << early;
  std::string no_rate = whole;
  no_rate.replace(no_rate.find("4xHDR"), 5, "fast!");
  EXPECT_NE(complaint(no_rate).find("a link without a rate such as 4xEDR"), std::string::npos);
  const std::string headless = whole.substr(whole.find("\nCa\t"));
  EXPECT_NE(complaint(headless).find("which the file does not have"), std::string::npos);
}

}  // namespace
}  // namespace weft
