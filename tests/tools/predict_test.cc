// weft predict: what it says about clusters that are not here.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "tests/base/sanitized.h"
#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

const std::string kTwoLeaves = "predict --cluster " WEFT_CLUSTERS "/two-leaves.toml ";

std::vector<nlohmann::json> objects(const Ran& ran) {
  std::vector<nlohmann::json> all;
  for (const std::string& line : ran.out)
    all.push_back(nlohmann::json::parse(line, nullptr, false));
  return all;
}

TEST(Predict, ATableOfOperationsAndSizes) {
  const Ran ran = run_weft(kTwoLeaves + "--algorithm ring,hierarchical --sizes 1M,64M --explain");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "16 machines, 128 ranks"));
  EXPECT_TRUE(mentions(ran.out, "algbw GB/s  busbw GB/s  of ideal  busiest link"));
  EXPECT_TRUE(mentions(ran.out, "neighbor_allreduce direct"));
  EXPECT_TRUE(mentions(ran.out, "allreduce          hierarchical"));
  EXPECT_TRUE(mentions(ran.out, "every 64 ranks are alike"));
  EXPECT_TRUE(mentions(ran.out, "latency"));
}

TEST(Predict, JsonHasTheSame) {
  const Ran ran = run_weft(
      kTwoLeaves + "--operation allreduce --algorithm ring --sizes 64M --ranks 8,128 --json -");
  EXPECT_EQ(ran.exit_status, 0);
  const std::vector<nlohmann::json> rows = objects(ran);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["ranks"], 8);
  EXPECT_TRUE(rows[0]["ideal_us"].is_null());  // one machine: nothing passes an interface
  EXPECT_EQ(rows[1]["operation"], "allreduce");
  EXPECT_EQ(rows[1]["algorithm"], "ring");
  EXPECT_EQ(rows[1]["messages"], 128 * 254);
  EXPECT_GT(rows[1]["us"].get<double>(), rows[0]["us"].get<double>());
  // 2 * 64 MiB * 15/16 over eight interfaces of 50 GB/s.
  EXPECT_NEAR(rows[1]["ideal_us"].get<double>(), 314.6, 0.1);
  const double algbw = (64 << 20) / rows[1]["us"].get<double>() / 1e3;
  EXPECT_NEAR(rows[1]["algbw_GBps"].get<double>(), algbw, 1e-6 * algbw);
  EXPECT_NEAR(rows[1]["busbw_GBps"].get<double>(), algbw * 2 * 127 / 128, 1e-6 * algbw);
}

TEST(Predict, JsonExplainedHasEveryPhaseAndLink) {
  const Ran ran =
      run_weft(kTwoLeaves +
               "--operation allreduce --algorithm ring --sizes 64M --ranks 16 --explain --json");
  EXPECT_EQ(ran.exit_status, 0);
  const std::vector<nlohmann::json> rows = objects(ran);
  ASSERT_EQ(rows.size(), 1U);
  const nlohmann::json& phases = rows[0]["phases"];
  ASSERT_EQ(phases.size(), 30U);  // 2 (n - 1)
  EXPECT_NEAR(phases.back()["end_us"].get<double>(), rows[0]["us"].get<double>(),
              rows[0]["us"].get<double>() / 10);
  double most = 0;
  for (const nlohmann::json& link : rows[0]["links"]) {
    const double could = link["gbit_per_s"].get<double>() * 1e3 / 8 * rows[0]["us"].get<double>();
    most = std::max(most, link["bytes"].get<double>() / could);
  }
  EXPECT_NEAR(most, rows[0]["busiest_share"].get<double>(), 1e-6);
}

TEST(Predict, AStragglerAndComputingCount) {
  const auto us = [](const std::string& more, const char* key) {
    const Ran ran =
        run_weft(kTwoLeaves + "--operation allreduce --algorithm ring --sizes 1M --json - " + more);
    return objects(ran).at(0)[key].get<double>();
  };
  const double plain = us("", "us");
  EXPECT_GT(us("--straggler 3:+5000us", "us"), plain + 4900);
  EXPECT_GT(us("--straggler 3:x20", "us"), plain);
  EXPECT_NEAR(us("--compute 10", "iteration_us"), plain + 10'000, 1e-3);
}

// 1 MiB over four equal rails: as many of them as it has pieces.
TEST(Predict, PiecesAreThoseOfTheNetwork) {
  const Folder folder;
  const auto us = [&folder](bool is_rdma, const std::string& more) {
    std::string nics, rails;
    for (int rail = 0; rail < 4; ++rail) {
      const std::string rdma = is_rdma ? fmt::format("rdma = \"mlx5_{}\"\n", rail) : "";
      nics += fmt::format("[[nic]]\nname = \"eth{}\"\n{}", rail, rdma);
      rails += fmt::format("[[rail]]\nnics = [\"eth{}\"]\ngbit_per_s = 8\n", rail);
    }
    folder.write("nics.toml", nics);
    folder.write("pieces.toml",
                 "[[machine]]\ncount = 2\nlike = \"synthetic:core:2 pu:1\"\ncorrect = "
                 "\"nics.toml\"\nranks = 1\n" +
                     rails);
    const Ran ran = run_weft("predict --cluster " + folder.path("pieces.toml") +
                             " --operation broadcast --sizes 1M --combine 1000 --json - " + more);
    EXPECT_EQ(ran.exit_status, 0);
    return objects(ran).at(0)["us"].get<double>();
  };
  const double one_rail = 1 << 20;  // bytes at 1 GB/s, in thousandths of a microsecond
  EXPECT_NEAR(us(true, "") * 1e3, one_rail / 4, one_rail / 20) << "256 KiB: four pieces";
  EXPECT_NEAR(us(false, "") * 1e3, one_rail / 2, one_rail / 20) << "512 KiB: two";
  EXPECT_NEAR(us(true, "--piece 512K") * 1e3, one_rail / 2, one_rail / 20);
  EXPECT_NEAR(us(false, "--piece 1M") * 1e3, one_rail, one_rail / 20);
}

// A command line that is refused, with this word.
void complaint(const std::string& arguments, const std::string& word) {
  const Ran ran = run_weft(arguments);
  EXPECT_EQ(ran.exit_status, 2) << arguments;
  EXPECT_TRUE(mentions(ran.errors, word)) << arguments;
}

// Of four machines one keeps half of its rails. Equal work takes twice as long then; the plan for what is left two thirds
// of that, and a sixteenth for its turns.
TEST(Predict, ALostRailIsPlannedFor) {
  const Folder folder;
  folder.write("nics.toml", "[[nic]]\nname = \"eth0\"\n[[nic]]\nname = \"eth1\"\n");
  std::string cluster =
      "[[machine]]\ncount = 4\nlike = \"synthetic:core:2 pu:1\"\ncorrect = \"nics.toml\"\n"
      "ranks = 1\n";
  for (const char* nic : {"eth0", "eth1"})
    cluster += fmt::format("[[rail]]\nnics = [\"{}\"]\ngbit_per_s = 8\n", nic);
  folder.write("two-rails.toml", cluster);
  const std::string predict =
      "predict --cluster " + folder.path("two-rails.toml") + " --operation allreduce --sizes 64M ";
  const auto row = [&](const std::string& more) {
    return objects(run_weft(predict + "--combine 1000 --json - " + more)).at(0);
  };
  const auto us = [](const nlohmann::json& found) { return found["us"].get<double>(); };
  const double whole = us(row("")), even = us(row("--lost 2:1 --algorithm ring"));
  const nlohmann::json planned = row("--lost 2:1");
  EXPECT_EQ(planned["algorithm"], "uneven");
  EXPECT_NEAR(even / whole, 2, 0.1);
  EXPECT_NEAR(us(planned) / even, 0.71, 0.03);
  for (const auto& [given, why] :
       std::map<std::string, const char*>{{"2", "expected MACHINE:RAIL"},
                                          {"4:0", "no machine of the cluster"},
                                          {"2:7", "no machine of the cluster"},
                                          {"2:0,2:1", "would have no rail"}})
    complaint(predict + "--lost " + given, why);
}

// A slow machine sends its input once, and takes the result in once.
TEST(Predict, IdealOfUnequalMachinesIsWhatTheSlowestMustCarry) {
  const Folder folder;
  folder.write("slow.toml", "[[nic]]\nname = \"eth0\"\nmbit_per_s = 8_000\n");
  folder.write("fast.toml", "[[nic]]\nname = \"eth0\"\nmbit_per_s = 800_000\n");
  const auto ideal_us = [&folder](int slow, int fast, const std::string& operation) {
    const auto machines = [](int count, const std::string& rate) {
      return fmt::format(
          "[[machine]]\nname = \"{0}\"\ncount = {1}\nlike = \"synthetic:core:2 pu:1\"\n"
          "correct = \"{0}.toml\"\nranks = 1\n",
          rate, count);
    };
    folder.write("unequal.toml",
                 machines(slow, "slow") + machines(fast, "fast") + "[[rail]]\nnics = [\"eth0\"]\n");
    const Ran ran = run_weft("predict --cluster " + folder.path("unequal.toml") + " --operation " +
                             operation + " --sizes 1000000 --json -");
    return objects(ran).at(0)["ideal_us"].get<double>();
  };
  EXPECT_NEAR(ideal_us(1, 3, "allreduce"), 1000, 1e-3);  // M over 1 GB/s, not 2 M 3/4
  EXPECT_NEAR(ideal_us(1, 3, "broadcast"), 1000, 1e-3);
  // With many slow ones, that all together take in 2 M (n-1).
  EXPECT_NEAR(ideal_us(199, 1, "allreduce"), 2 * 199 * 1e6 / (199 * 1e3 + 100e3), 1e-3);
}

// More curves than names have room for beside the axes.
TEST(Predict, NamesOfManyCurvesStayInThePicture) {
  const Folder folder;
  std::string sizes = "4";
  for (int size = 5; size < 34; ++size) sizes += fmt::format(",{}", size);
  const Ran ran = run_weft(kTwoLeaves + "--operation neighbor_allreduce --ranks 8,16 --sizes " +
                           sizes + " --svg " + folder.path("curves.svg"));
  EXPECT_EQ(ran.exit_status, 0);
  pugi::xml_document picture;
  ASSERT_TRUE(picture.load_string(folder.content("curves.svg").c_str()));
  int names = 0;
  for (const pugi::xpath_node found : picture.select_nodes("//*[local-name()='text']")) {
    if (std::string(found.node().text().get()).starts_with("neighbor_allreduce")) ++names;
    EXPECT_LT(found.node().attribute("y").as_double(),
              picture.document_element().attribute("height").as_double());
  }
  EXPECT_EQ(names, 30);
}

TEST(Predict, SchedulesMachinesOfAKindAndDrawings) {
  const Folder folder;
  const Ran ran = run_weft(kTwoLeaves +
                           "--operation neighbor_allreduce --graph one_peer_exponential --sizes 1M "
                           "--ranks 8,16,32 --svg " +
                           folder.path("curves.svg") + " --run-svg " + folder.path("run.svg") +
                           " --plan-svg " + folder.path("plan.svg"));
  EXPECT_EQ(ran.exit_status, 0);
  const std::string curves = folder.content("curves.svg");
  EXPECT_NE(curves.find("neighbor_allreduce direct"), std::string::npos);
  EXPECT_EQ(curves.find(",-"), std::string::npos) << "a point above the picture";
  EXPECT_NE(folder.content("run.svg").find("rank 31"), std::string::npos);
  EXPECT_NE(folder.content("plan.svg").find("phase 1"), std::string::npos);
}

class PredictPlaced : public testing::Test {
 protected:
  [[nodiscard]] Ran tree(const std::string& command, const std::string& arguments) const {
    return run_weft(command + " --cluster " + folder_.tree() + " --graph ring " + arguments);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  TreeFolder folder_;
};

TEST_F(PredictPlaced, SeatsAreThoseThatMapFinds) {
  const std::string search = "--place --swaps 1000 ";
  const Ran ran =
      tree("predict", search + "--operation neighbor_allreduce,allreduce --sizes 1M,4M --run-svg " +
                          path("run.svg"));
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "seats of 16 ranks, searched for ring"));
  EXPECT_TRUE(mentions(ran.out, "identity us"));
  int found = 0;
  for (const std::string& line : tree("map", search).out)
    if (line.find("swaps tried") != std::string::npos) found += mentions(ran.out, line) ? 1 : 0;
  EXPECT_EQ(found, 1);
  // Neighbors are on one leaf now, so what leaves it is a quarter.
  const std::string wire_only = "--operation neighbor_allreduce --sizes 1M --combine 1000 --json -";
  const std::vector<nlohmann::json> rows = objects(tree("predict", search + wire_only));
  const std::vector<nlohmann::json> plain = objects(tree("predict", wire_only));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["identity_us"], plain.at(0)["us"]);
  EXPECT_LT(rows[0]["us"].get<double>(), rows[0]["identity_us"].get<double>() / 3);
  EXPECT_TRUE(plain[0]["identity_us"].is_null());
}

// Four ranks are each alone below a leaf, whose uplink carries what one of its four machines sends.
TEST_F(PredictPlaced, MachinesLeftOutDoNotNarrowTheirLeaf) {
  const std::vector<nlohmann::json> rows =
      objects(tree("predict",
                   "--operation neighbor_allreduce --sizes 1M --combine 1000 "
                   "--ranks 4,16 --json -"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_LT(rows[0]["us"].get<double>(), rows[1]["us"].get<double>() / 3);
}

// Rank 15's neighbors are below another switch of level 1, rank 31's below another of level 2.
TEST(Predict, AllLevelsHoldUpWhatPassesThem) {
  const Ran ran = run_weft("predict --cluster " WEFT_CLUSTERS
                           "/three-levels.toml --graph exponential "
                           "--operation neighbor_allreduce --sizes 1M --combine 1000 --explain");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "up from level 2"));
  EXPECT_TRUE(mentions(ran.out, "every 32 ranks are alike"));
}

// Two machines with two fast interfaces each: links are faster than memory, so a search by links alone
// puts the neighbors of a ring apart. With 64 KiB, pieces use one interface, which is slower.
TEST_F(PredictPlaced, SeatsAreNeverWorseThanInOrder) {
  const Folder folder;
  folder.write("nics.toml",
               "[[nic]]\nname = \"mlx5_0\"\nnetdev = \"a\"\nmbit_per_s = 400_000\nnuma_node = 0\n"
               "[[nic]]\nname = \"mlx5_1\"\nnetdev = \"b\"\nmbit_per_s = 400_000\nnuma_node = 1\n");
  folder.write(
      "two.toml",
      "[[machine]]\ncount = 2\nlike = \"synthetic:node:2 core:4 pu:1\"\n"
      "correct = \"nics.toml\"\nranks = 2\n[[rail]]\nnics = [\"mlx5_0\"]\n[[rail]]\nnics = "
      "[\"mlx5_1\"]\n");
  const std::string file =
      " --cluster " + folder.path("two.toml") + " --graph ring --place --swaps 1000";
  const std::vector<nlohmann::json> rows =
      objects(run_weft("predict" + file +
                       " --operation neighbor_allreduce --sizes 4K,64K,64M --lanes 1,8 --json -"));
  ASSERT_EQ(rows.size(), 6U);
  for (const nlohmann::json& row : rows)
    EXPECT_LE(row["us"].get<double>(), row["identity_us"].get<double>()) << row;
  const Ran map = run_weft("map" + file + " --bytes 64K");
  EXPECT_EQ(map.exit_status, 0);
  EXPECT_TRUE(
      mentions(map.out, "links had better seats, but neighbor_allreduce of 64K would take"));
}

TEST_F(PredictPlaced, WhatStaysOrCannotBeSearchedForIsTold) {
  const Ran kept = run_weft(kTwoLeaves + "--operation neighbor_allreduce --graph ring --sizes 1M " +
                            "--place --swaps 100 --explain");
  EXPECT_TRUE(mentions(kept.out, "nothing better than the identity"));
  EXPECT_TRUE(mentions(kept.out, "every 64 ranks are alike"));
  const Ran wrong = tree("predict", "--place --operation hierarchical_neighbor_allreduce");
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_TRUE(mentions(wrong.errors, "one of machines"));
  EXPECT_EQ(tree("predict", "--swaps 5").exit_status, 2);  // of which search?
}

TEST(Predict, MistakesAreNamed) {
  complaint("predict", "--cluster FILE");
  complaint("predict --like this", "--machines 0");
  complaint(kTwoLeaves + "--ranks 129", "--ranks 129");
  complaint(kTwoLeaves + "--sizes 1X", "'1X' is no size");
  complaint(kTwoLeaves + "--operation allgossip", "--operation allgossip");
  complaint(kTwoLeaves + "--algorithm fast", "fast");
  complaint(kTwoLeaves + "--algorithm nccl", "cannot be predicted");
  complaint(kTwoLeaves + "--graph nowhere", "nowhere");
  complaint(kTwoLeaves + "--straggler 3:500", "--straggler 3:500");
  complaint(kTwoLeaves + "--straggler 200:+5us", "200");
  complaint(kTwoLeaves + "--straggler 3:x20,3:+5000us", "rank 3 is there twice");
  complaint(kTwoLeaves + "--ranks 4,8 --straggler 100:+9999us",
            "--straggler 100:+9999us: no run has a rank 100: there are 8 ranks");
  EXPECT_EQ(run_weft(kTwoLeaves + "--ranks 4,8 --straggler 7:+9us --sizes 1M").exit_status, 0);
  for (const char* option : {"--machines 4", "--per-machine 2", "--latency 5"})
    complaint(kTwoLeaves + option, "requires --like");
  complaint(kTwoLeaves + "--title Curves", "requires --svg");
  complaint(kTwoLeaves + "--bits same", "--bits same");
  complaint(kTwoLeaves + "--piece 0", "--piece 0: expected");
  complaint(kTwoLeaves + "--piece 1X", "--piece: '1X' is no size");
  complaint(kTwoLeaves + "--rails far", "auto, near, all");
  for (const char* option : {"--message-us", "--combine", "--compute", "--latency"})
    complaint(kTwoLeaves + option + " nan", option);
  complaint(kTwoLeaves + "--place --seconds nan", "--seconds");
  complaint(kTwoLeaves + "--place --seed -1", "--seed");
  complaint(kTwoLeaves + "--combine 1e-300", "at least");
  const Ran full = run_weft(kTwoLeaves + "--sizes 1M --json /dev/full");
  EXPECT_EQ(full.exit_status, 1);
  EXPECT_TRUE(mentions(full.errors, "/dev/full: No space left"));
  complaint(kTwoLeaves + "--operation allreduce --algorithm bcube --ranks 7",
            "left out: allreduce bcube on 7 ranks: bcube needs");
  EXPECT_EQ(run_weft("predict --cluster /nowhere.toml").exit_status, 1);
}

// What cannot be done is left out, by name, and the rest is told.
TEST(Predict, MachinesWithoutSharesInCommonLeaveAnOperationOut) {
  const Folder folder;
  std::string cluster;
  for (const int ranks : {16, 15, 13, 11, 7})
    cluster +=
        fmt::format("[[machine]]\nlike = \"" WEFT_MACHINES "/8gpu-8nic.xml\"\nranks = {}\n", ranks);
  folder.write("uneven.toml", cluster + "[[rail]]\nnics = [\"mlx5_0\"]\ngbit_per_s = 100\n");
  const std::string predict =
      "predict --cluster " + folder.path("uneven.toml") +
      " --graph ring --sizes 1M --operation hierarchical_neighbor_allreduce";
  const std::string left_out =
      "left out: hierarchical_neighbor_allreduce on 62 ranks: machines of 7, 11, 13, 15, 16 ranks "
      "have no shares in common";
  const Ran alone = run_weft(predict);
  EXPECT_EQ(alone.exit_status, 2);
  EXPECT_TRUE(mentions(alone.errors, left_out));
  EXPECT_TRUE(mentions(alone.errors, "nothing that can be predicted"));
  const Ran both = run_weft(predict + ",allreduce --algorithm hierarchical,ring");
  EXPECT_EQ(both.exit_status, 0);
  EXPECT_TRUE(mentions(both.errors, left_out));
  EXPECT_TRUE(mentions(both.errors, "left out: allreduce hierarchical on 62 ranks: "));
  EXPECT_TRUE(mentions(both.out, "allreduce                       ring"));
}

TEST(Predict, RanksThatDoNotReachEachOtherLeaveAnAlgorithmOut) {
  const Folder folder;
  folder.write("bcube.toml", "[[machine]]\ncount = 16\nlike = \"" WEFT_MACHINES
                             "/8gpu-8nic.xml\"\nranks = 1\n"
                             "[[rail]]\nnics = [\"mlx5_0\"]\ngbit_per_s = 100\ntop = false\n"
                             "[[rail.level]]\nmachines = 4\n"
                             "[[rail]]\nnics = [\"mlx5_1\"]\ngbit_per_s = 100\ntop = false\n"
                             "[[rail.level]]\nmachines = 4\nstride = 4\n");
  const std::string predict =
      "predict --cluster " + folder.path("bcube.toml") + " --operation allreduce --algorithm ring";
  const Ran both = run_weft(predict + ",bcube");
  EXPECT_EQ(both.exit_status, 0);
  EXPECT_EQ(both.errors, (std::vector<std::string>{"weft predict: left out: allreduce ring on 16 "
                                                   "ranks: no rail between ranks 3 and 4"}))
      << "once for all sizes";
  EXPECT_EQ(std::ranges::count_if(
                both.out, [](const std::string& line) { return line.starts_with("allreduce "); }),
            3);
  EXPECT_TRUE(mentions(both.out, "allreduce          bcube"));
  const Ran ring = run_weft(predict);
  EXPECT_EQ(ring.exit_status, 2);
  EXPECT_TRUE(mentions(ring.errors, "nothing that can be predicted"));
}

TEST(Predict, AnAlgorithmHasTheNameThatItWasAskedForBy) {
  const std::string predict = kTwoLeaves + "--operation allreduce --sizes 1M --ranks 8 ";
  EXPECT_TRUE(mentions(run_weft(predict + "--algorithm mesh").out, "allreduce          mesh "));
  EXPECT_TRUE(mentions(run_weft(predict + "--algorithm split").out, "allreduce          split "));
  EXPECT_EQ(objects(run_weft(predict + "--algorithm mesh --json")).at(0)["algorithm"], "mesh");
}

TEST(Predict, FixedBitsHaveAPrice) {
  const std::string what = kTwoLeaves + "--operation allreduce --sizes 1M --bits ";
  const std::vector<nlohmann::json> fixed = objects(run_weft(what + "fixed --json -"));
  const std::vector<nlohmann::json> usual = objects(run_weft(what + "auto --json -"));
  ASSERT_EQ(fixed.size(), 1U);
  ASSERT_EQ(usual.size(), 1U);
  EXPECT_EQ(fixed[0]["algorithm"], "chain");
  EXPECT_DOUBLE_EQ(fixed[0]["usual_us"].get<double>(), usual[0]["us"].get<double>());
  const double price = fixed[0]["us"].get<double>() / usual[0]["us"].get<double>();
  EXPECT_DOUBLE_EQ(fixed[0]["price"].get<double>(), price);
  EXPECT_GT(price, 1);
  EXPECT_FALSE(usual[0].contains("price"));
  const Ran table = run_weft(what + "fixed --explain");
  EXPECT_TRUE(mentions(table.out, "price"));
  EXPECT_TRUE(mentions(table.out, "in place of hierarchical"));
  const Ran other = run_weft(what + "fixed --algorithm ring,split");
  EXPECT_TRUE(mentions(other.errors, "left out: allreduce ring"));
}

TEST(Predict, AMachineOfAKindIsCorrected) {
  const Folder folder;
  folder.write("nic.toml", "[[nic]]\nname = \"eth0\"\nmbit_per_s = 10_000\n");
  const std::string predict =
      "predict --like \"synthetic:core:2 pu:1\" --machines 4 --graph ring --sizes 1M ";
  const Ran plain = run_weft(predict);
  EXPECT_NE(plain.exit_status, 0);
  const Ran ran = run_weft(predict + "--correct " + folder.path("nic.toml"));
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "neighbor_allreduce direct                4     1M"));
  EXPECT_EQ(run_weft(kTwoLeaves + "--correct " + folder.path("nic.toml")).exit_status, 2)
      << "a cluster file has corrections of its own";
}

// Plain Ethernet beside RDMA carries nothing, and is no rail that algorithms could use.
TEST(Predict, RdmaGoesBeforeOtherNetworks) {
  const Folder folder;
  folder.write("nics.toml",
               "[[nic]]\nname = \"mlx5_0\"\nrdma = \"mlx5_0\"\nmbit_per_s = 100_000\n"
               "[[nic]]\nname = \"mlx5_1\"\nrdma = \"mlx5_1\"\nmbit_per_s = 100_000\n"
               "[[nic]]\nname = \"eth0\"\nmbit_per_s = 100_000\n");
  const std::string rdma =
      "[[machine]]\ncount = 4\nlike = \"synthetic:core:4 pu:1\"\ncorrect = \"nics.toml\"\n"
      "ranks = 2\n[[rail]]\nnics = [\"mlx5_0\"]\n[[rail]]\nnics = [\"mlx5_1\"]\n";
  folder.write("rdma.toml", rdma);
  folder.write("both.toml", "[[rail]]\nnics = [\"eth0\"]\n" + rdma);
  for (const std::string rails : {"near", "all"}) {
    const auto times = [&](const std::string& cluster) {
      std::vector<double> us;
      const Ran ran = run_weft(
          "predict --operation allreduce --algorithm multi_ring,hierarchical "
          "--sizes 64M --json --cluster " +
          folder.path(cluster) + " --rails " + rails);
      EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors.front());
      for (const nlohmann::json& row : objects(ran)) us.push_back(row.value("us", 0.0));
      return us;
    };
    EXPECT_EQ(times("rdma.toml").size(), 2U);
    EXPECT_EQ(times("both.toml"), times("rdma.toml")) << rails;
  }
}

TEST(Predict, RanksOfWhichEachIsLikeAnyOther) {
  const Ran ran = run_weft("predict --cluster " WEFT_CLUSTERS
                           "/ethernet.toml --ranks 8 --operation neighbor_allreduce --sizes 1M "
                           "--explain");
  EXPECT_TRUE(mentions(ran.out, "; all ranks are alike"));
}

// SGP, Fig. 4b: an iteration takes as long on 32 nodes as on 4, on 10 Gbit/s.
TEST(Predict, AnIterationOfPushSumIsFlatInTheNumberOfNodes) {
  const std::vector<nlohmann::json> rows =
      objects(run_weft("predict --cluster " WEFT_CLUSTERS
                       "/ethernet.toml --graph one_peer_exponential --compute 310 --algorithm "
                       "ring --sizes 100000000 --ranks 4,8,16,32 --json"));
  ASSERT_EQ(rows.size(), 8U);
  const auto us = [&rows](const char* operation, int ranks) {
    for (const nlohmann::json& row : rows)
      if (row["operation"] == operation && row["ranks"] == ranks)
        return row["iteration_us"].get<double>();
    return 0.0;
  };
  const double exchange_us = 100e6 * 8 / 10e3;
  EXPECT_GT(us("neighbor_allreduce", 4), 310e3 + exchange_us);
  EXPECT_LT(us("neighbor_allreduce", 4), 1.1 * (310e3 + exchange_us));
  for (const int ranks : {8, 16, 32})
    EXPECT_NEAR(us("neighbor_allreduce", ranks) / us("neighbor_allreduce", 4), 1, 0.01) << ranks;
  EXPECT_GT(us("allreduce", 32), 1.05 * us("allreduce", 4)) << "which an allreduce is not";
}

// The rows of a prediction for equal machines on four rails, each rank by itself although all are
// alike, in less than 2 GiB.
std::vector<nlohmann::json> of_every_rank(int machines, int ranks_each, const std::string& words) {
  const Folder folder;
  std::string cluster = fmt::format("[[machine]]\ncount = {}\nlike = \"" WEFT_MACHINES
                                    "/8gpu-8nic.xml\"\nranks = {}\n",
                                    machines, ranks_each);
  for (int rail = 0; rail < 4; ++rail)
    cluster += fmt::format("[[rail]]\nnics = [\"mlx5_{}\"]\ngbit_per_s = 100\n", rail);
  folder.write("many.toml", cluster);
  const Ran ran =
      run_line("ulimit -v $((2 << 20)) && {weft} predict --cluster " + folder.path("many.toml") +
               " --operation " + words + " --sizes 64M --every-rank --json -");
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors.back());
  return objects(ran);
}

// Processor seconds of all commands that were run and have ended.
double children_s() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(Predict, MillionsOfMessagesInSecondsAndLessThanTwoGiB) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers take memory and time of their own";
  const double before_s = children_s();
  const std::vector<nlohmann::json> rows =
      of_every_rank(11 * 11 * 11 * 11, 1, "allreduce --algorithm bcube");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["messages"], 4'685'120);  // to 10 others of each level, twice, in 4 parts
  EXPECT_LT(children_s() - before_s, 20) << "seconds; 5 where nobody else computes";
}

TEST(Predict, TenThousandRanks) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  const auto messages = [](int ranks_each, const std::string& words) {
    const std::vector<nlohmann::json> rows = of_every_rank(10'000 / ranks_each, ranks_each, words);
    return rows.size() == 1 ? rows[0]["messages"].get<int>() : -1;
  };
  EXPECT_EQ(messages(1, "neighbor_allreduce --graph exponential"), 10'000 * 14);
  EXPECT_EQ(messages(1, "allreduce --algorithm halving_doubling"), 8192 * 13 * 2 + 1808 * 2)
      << "and those that are over";
  EXPECT_EQ(messages(8, "allreduce --algorithm hierarchical"), 10'000 * (7 + 21) * 2)
      << "there and back, inside machines and between 5 x 5 x 5 x 10";
}

}  // namespace
}  // namespace weft
