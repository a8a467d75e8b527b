// Clusters as InfraGraph describes them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "topology/cluster/cluster.h"

namespace weft {
namespace {

using nlohmann::json;

json component(const char* name, const char* choice, std::uint64_t count) {
  return {{"name", name}, {"choice", choice}, {"count", count}, {"description", "any"}};
}

json edge(const std::string& instance, const std::string& part, const std::string& other,
          const std::string& other_part, const char* link) {
  return {{"ep1", {{"instance", instance}, {"component", part}}},
          {"ep2", {{"instance", other}, {"component", other_part}}},
          {"scheme", "one2one"},
          {"link", link}};
}

json link(const char* name, double gbit) {
  return {{"name", name},
          {"physical",
           {{"bandwidth", {{"choice", "gigabits_per_second"}, {"gigabits_per_second", gbit}}}}}};
}

// As the blueprints of the infragraph package build it: each end of an edge has its number, a switch has a processor of its
// own, and a whole component stands for all of its kind.
json clos(int leaves, int spines) {
  const json server = {{"name", "server"},
                       {"components",
                        {component("cpu", "cpu", 1), component("xpu", "xpu", 2),
                         component("pciesw", "switch", 1), component("nic", "nic", 2)}},
                       {"links", {{{"name", "pcie"}}}},
                       {"edges",
                        {{{"ep1", {{"component", "cpu[0]"}}},
                          {"ep2", {{"component", "pciesw[0]"}}},
                          {"scheme", "many2many"},
                          {"link", "pcie"}}}}};
  const json a_switch = {
      {"name", "switch"},
      {"components", {component("asic", "cpu", 1), component("port", "port", 16)}}};
  json edges = json::array();
  for (int leaf = 0; leaf < leaves; ++leaf) {
    edges.push_back(edge(fmt::format("host[{}]", leaf), "nic", fmt::format("leafsw[{}]", leaf),
                         "port", "leaf-link"));
    for (int spine = 0; spine < spines; ++spine)
      edges.push_back(edge(fmt::format("leafsw[{}]", leaf), fmt::format("port[{}]", 2 + spine),
                           fmt::format("spinesw[{}]", spine), fmt::format("port[{}]", leaf),
                           "spine-link"));
  }
  return {{"name", "closfabric"},
          {"devices", {server, a_switch}},
          {"links", {link("leaf-link", 100), link("spine-link", 400)}},
          {"instances",
           {{{"name", "host"}, {"device", "server"}, {"count", leaves}},
            {{"name", "leafsw"}, {"device", "switch"}, {"count", leaves}},
            {{"name", "spinesw"}, {"device", "switch"}, {"count", spines}}}},
          {"edges", edges}};
}

class Infragraph : public testing::Test {
 protected:
  ~Infragraph() override { std::filesystem::remove(path_); }
  Result<Cluster> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_cluster(path_);
  }
  void expect_complaint(const json& document, const std::string& words) {
    const Result<Cluster> cluster = read(document.dump());
    ASSERT_FALSE(cluster.ok()) << words;
    const std::string text = cluster.status().to_string();
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_NE(text.find(path_), std::string::npos) << text;
  }
  const std::string path_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("infragraph-{}", getpid());
};

bool has_remark(const Cluster& cluster, const std::string& words) {
  for (const std::string& remark : cluster.remarks)
    if (remark.find(words) != std::string::npos) return true;
  return false;
}

TEST_F(Infragraph, WhatTheirBlueprintsWrite) {
  const Result<Cluster> cluster = read(clos(4, 3).dump(2));
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  ASSERT_EQ(cluster->machines.size(), 4U);
  EXPECT_EQ(cluster->machines[3].name, "host.3");
  EXPECT_EQ(cluster->machines[3].ranks, 2);
  EXPECT_EQ(cluster->ranks(), 8);
  EXPECT_EQ(cluster->machines[0].hardware, cluster->machines[3].hardware);
  ASSERT_EQ(cluster->rails.size(), 2U);
  EXPECT_DOUBLE_EQ(cluster->rails[1].gbit_per_s[2], 100);
  ASSERT_EQ(cluster->rails[0].levels.size(), 1U);
  EXPECT_EQ(cluster->rails[0].levels[0].machines, 1);
  EXPECT_DOUBLE_EQ(cluster->rails[0].levels[0].gbit_per_s, 600);  // of two rails
  EXPECT_TRUE(has_remark(*cluster, "tells no latency"));
}

TEST_F(Infragraph, DevicesInDevicesSlicesAndLatencies) {
  const Result<Cluster> cluster = read_cluster(WEFT_EXAMPLES "/clusters/two-tier.json");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  ASSERT_EQ(cluster->machines.size(), 8U);
  EXPECT_EQ(cluster->ranks(), 32);
  ASSERT_EQ(cluster->rails.size(), 4U);
  EXPECT_EQ(cluster->machines[0].hardware->nics[2].rdma, "card.2.port.0");
  EXPECT_DOUBLE_EQ(cluster->rails[0].gbit_per_s[7], 200);
  EXPECT_DOUBLE_EQ(cluster->rails[0].latency_us, 1.6);  // two links
  ASSERT_EQ(cluster->rails[3].levels.size(), 1U);
  EXPECT_EQ(cluster->rails[3].levels[0].machines, 2);
  EXPECT_DOUBLE_EQ(cluster->rails[3].levels[0].gbit_per_s, 200);  // of four rails
}

TEST_F(Infragraph, HostsThatNoEdgeLinksAreSaid) {
  json document = clos(2, 1);
  document["instances"][0]["count"] = 5;
  const Result<Cluster> cluster = read(document.dump());
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  EXPECT_EQ(cluster->machines.size(), 2U);
  EXPECT_TRUE(has_remark(*cluster, "3 hosts are linked to no switch"));
}

TEST_F(Infragraph, WhatIsWrongIsNamed) {
  const json good = clos(2, 1);
  const auto with = [&](const std::string& path, const json& value, const std::string& words) {
    json document = good;
    document[json::json_pointer(path)] = value;
    expect_complaint(document, words);
  };
  const auto without = [&](const std::string& path, const char* key, const std::string& words) {
    json document = good;
    document[json::json_pointer(path)].erase(key);
    expect_complaint(document, words);
  };
  with("/edges/0/ep1/instance", "nobody[0]", "edges 0: there is no instance 'nobody[0]'");
  with("/edges/0/ep2/component", "plug", "device 'switch' has no component 'plug'");
  with("/edges/0/ep1/instance", "host[7]", "'host[7]': expected a name with a slice within 0:2");
  with("/edges/0/ep1/instance", "host[0:1:0]", "'host[0:1:0]'");
  with("/edges/0/link", "none", "there is no link 'none'");
  with("/edges/0/scheme", "ring", "scheme 'ring': expected one2one or many2many");
  with("/edges/0/ep2", {{"instance", "host[1]"}, {"component", "nic"}},
       "host.0 and host.1 are two hosts");
  with("/links/0/physical", json::object(), "link 'leaf-link' has no bandwidth");
  with("/links/0/physical/bandwidth/gigabits_per_second", -5, "not possible");
  with("/instances/0/count", 10'000'000, "instances 0: count: expected 0 to 1048576");
  with("/instances/0/count", 2.5, "instances 0: count");
  with("/instances/0/device", "box", "there is no device 'box'");
  with("/devices/0/components/0/count", -1, "component 0 of 'server': count");
  with("/devices/0/components/0", component("gone", "device", 1), "there is no such device");
  with("/devices/1/name", "server", "device 'server' is there twice");
  with("/edges", json::array(), "no edge links a host");
  without("", "instances", "has no array instances");
  without("/instances/0", "device", "instances 0: has no device");
  without("/devices/0", "name", "devices 0: has no name");
  without("/devices/0/components/1", "choice", "component 1 of 'server': has no choice");
  without("/edges/0", "ep2", "edges 0: has no ep2");
  without("/edges/0/ep2", "component", "edges 0: has no component");
  const std::string text = good.dump();
  EXPECT_NE(read(text.substr(0, text.size() / 2)).status().to_string().find("is cut short"),
            std::string::npos);
  EXPECT_NE(read("instances:\n- name: a\nedges:\n").status().to_string().find("write it as JSON"),
            std::string::npos);
}

// Each device has all others, so there are more ways through them than could ever be gone.
TEST_F(Infragraph, DevicesInACircleAndCountsThatMultiplyEnd) {
  json document = clos(2, 1);
  const json whole = document;
  document["devices"][0]["components"].push_back(component("switch", "device", 1));
  document["devices"][1]["components"].push_back(component("server", "device", 1));
  expect_complaint(document, "contains itself");
  document = whole;
  for (int i = 0; i < 30; ++i) {
    json device = {{"name", fmt::format("d{}", i)}, {"components", json::array()}};
    for (int j = i + 1; j < 30; ++j)
      device["components"].push_back(component(fmt::format("d{}", j).c_str(), "device", 1 << 20));
    document["devices"].push_back(device);
  }
  expect_complaint(document, "more than 8 deep");
  document = whole;
  document["instances"][0]["count"] = 1 << 20;
  document["devices"][0]["components"][3]["count"] = 1 << 20;
  document["edges"][0]["ep1"]["instance"] = "host";
  expect_complaint(document, "more than 1000000 ends");
  document["edges"][0]["ep1"]["instance"] = "host[0:1000]";
  document["edges"][0]["ep1"]["component"] = "nic[0:2]";
  document["devices"][1]["components"][1]["count"] = 1 << 10;
  document["edges"][0]["ep2"]["component"] = "port";
  document["edges"][0]["scheme"] = "many2many";
  expect_complaint(document, "more than 1000000 links");
  document = whole;
  document["devices"][0]["components"][1]["count"] = 1 << 20;
  expect_complaint(document, "more than 1048576 ranks");
}

}  // namespace
}  // namespace weft
