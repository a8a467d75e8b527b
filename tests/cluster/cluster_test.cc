// Clusters from files: what they have, and mistakes with their line.
#include "topology/cluster/cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weft {
namespace {

class Clusters : public testing::Test {
 protected:
  Clusters() : path_(folder() / "cluster.toml") {}
  ~Clusters() override { std::filesystem::remove_all(path_.parent_path()); }

  Result<Cluster> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_cluster(path_);
  }
  // The complaint without the file's name: "3: unknown key …".
  std::string complaint(const std::string& text) {
    const Result<Cluster> cluster = read(text);
    const std::string all(cluster.status().text());
    EXPECT_TRUE(all.starts_with(path_.string() + ":")) << all;
    return all.substr(std::min(all.size(), path_.string().size() + 1));
  }
  [[nodiscard]] std::filesystem::path beside(const std::string& name) const {
    return path_.parent_path() / name;
  }

 private:
  static std::filesystem::path folder() {
    char path[] = "/tmp/weft-test-XXXXXX";
    EXPECT_NE(mkdtemp(path), nullptr);
    return path;
  }
  std::filesystem::path path_;
};

constexpr const char* kTwoMachines = R"(
[[machine]]
count = 2
like = "synthetic:pack:1 core:4 pu:1"
correct = "fix.toml"
ranks = 3
)";

TEST_F(Clusters, TheExampleHasEightRails) {
  const Result<Cluster> cluster = read_cluster(WEFT_EXAMPLES "/clusters/two-leaves.toml");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  EXPECT_EQ(cluster->machines.size(), 16U);
  EXPECT_EQ(cluster->ranks(), 128);
  EXPECT_EQ(cluster->rails.size(), 8U);
  EXPECT_EQ(cluster->machine_of(0), 0);
  EXPECT_EQ(cluster->machine_of(127), 15);
  EXPECT_EQ(cluster->machine_of(8), 1);
  EXPECT_EQ(cluster->machines[3].name, "node3");
  EXPECT_EQ(cluster->machines[3].hardware, cluster->machines[4].hardware);
  const Rail& rail = cluster->rails[2];
  EXPECT_EQ(cluster->machines[0].hardware->nics[static_cast<std::size_t>(rail.nics[0])].name(),
            "mlx5_2");
  EXPECT_EQ(rail.switch_of(0, 7), 0);
  EXPECT_EQ(rail.switch_of(0, 8), 1);
  EXPECT_NE(describe(*cluster).find("rail 2: 16 machines, 400 Gbit/s, 2 us, 8 machines a leaf, "
                                    "2:1 oversubscribed"),
            std::string::npos);
}

TEST_F(Clusters, RailsMayLackMachinesAndRatesComeFromThem) {
  const Result<Cluster> cluster = read(R"(
[[machine]]
name = "gpus"
like = ")" WEFT_EXAMPLES R"(/machines/8gpu-8nic.xml"
[[machine]]
like = "synthetic:pack:1 core:4 pu:1"
[[machine]]
like = ")" WEFT_EXAMPLES R"(/machines/8gpu-8nic.xml"
[[rail]]
nics = ["eno1", "mlx5_3"]
gbit_per_s = 10
)");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  EXPECT_EQ(cluster->machines[0].ranks, 8);  // one for each GPU
  EXPECT_EQ(cluster->machines[1].ranks, 1);
  EXPECT_TRUE(cluster->rails[0].has(0));
  EXPECT_FALSE(cluster->rails[0].has(1));
  EXPECT_TRUE(cluster->rails[0].reaches(0, 2));
  EXPECT_FALSE(cluster->rails[0].reaches(0, 1));
}

TEST_F(Clusters, SwitchesHaveAnyNumberOfLevels) {
  const Result<Cluster> cluster = read(R"(
[[machine]]
count = 64
like = ")" WEFT_EXAMPLES R"(/machines/8gpu-8nic.xml"
[[rail]]
name = "r"
nics = ["mlx5_0"]
gbit_per_s = 10
latency_us = 2
[[rail.level]]
machines = 4
stride = 2
oversubscription = 2
latency_us = 1
[[rail.level]]
machines = 16
gbit_per_s = 50
latency_us = 3
[[rail.level]]
machines = 48
)");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  const Rail& rail = cluster->rails[0];
  ASSERT_EQ(rail.depth(), 3);
  // Leaves 0 and 1 have the machines 0, 2, 4, 6 and 1, 3, 5, 7.
  EXPECT_EQ(rail.switch_of(0, 6), 0);
  EXPECT_EQ(rail.switch_of(0, 7), 1);
  EXPECT_EQ(rail.switch_of(0, 8), 2);
  EXPECT_EQ(rail.switch_of(1, 15), 0);
  EXPECT_EQ(rail.switch_of(1, 16), 1);
  EXPECT_EQ(rail.switch_of(2, 47), 0);
  EXPECT_EQ(rail.switch_of(2, 48), 1);
  EXPECT_EQ(rail.latency_between(0, 2), 2);
  EXPECT_EQ(rail.latency_between(0, 1), 3);
  EXPECT_EQ(rail.latency_between(0, 16), 6);
  EXPECT_EQ(rail.latency_between(0, 63), 6);
  EXPECT_EQ(rail.below_switches(2), (std::vector<double>{480, 160}));
  EXPECT_EQ(rail.up_from_switches(0), std::vector<double>(16, 20));
  EXPECT_EQ(rail.up_from_switches(1), std::vector<double>(4, 50));
  EXPECT_EQ(rail.up_from_switches(2), (std::vector<double>{480, 160}));
  EXPECT_TRUE(rail.reaches(0, 63));
  EXPECT_NE(describe(*cluster).find(
                "rail r: 64 machines, 10 Gbit/s, 2 us, 4 machines a leaf (2 apart), 2:1 "
                "oversubscribed, 16 machines a switch of level 1, 50 Gbit/s up, 48 machines a "
                "switch of level 2, 1:1 oversubscribed"),
            std::string::npos)
      << describe(*cluster);
}

TEST_F(Clusters, AllExamplesAreRead) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(WEFT_EXAMPLES "/clusters")) {
    const Result<Cluster> cluster = read_cluster(file.path());
    EXPECT_TRUE(cluster.ok()) << cluster.status().to_string();
    ++files;
  }
  EXPECT_GE(files, 4);
}

// Two levels of a BCube(2, 2): each rail connects the machines that differ in one digit.
TEST_F(Clusters, LeavesMayBeApart) {
  const Result<Cluster> cluster = read(R"(
[[machine]]
count = 4
like = ")" WEFT_EXAMPLES R"(/machines/8gpu-8nic.xml"
[[rail]]
nics = ["mlx5_0"]
gbit_per_s = 10
top = false
[[rail.level]]
machines = 2
[[rail]]
nics = ["mlx5_1"]
gbit_per_s = 10
top = false
[[rail.level]]
machines = 2
stride = 2
)");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  const Rail& low = cluster->rails[0];
  const Rail& high = cluster->rails[1];
  EXPECT_TRUE(low.reaches(0, 1) && low.reaches(3, 2));
  EXPECT_FALSE(low.reaches(1, 2) || low.reaches(0, 2));
  EXPECT_TRUE(high.reaches(0, 2) && high.reaches(3, 1));
  EXPECT_FALSE(high.reaches(0, 1) || high.reaches(0, 3));
  EXPECT_NE(describe(*cluster).find("2 machines a leaf (2 apart), not connected"),
            std::string::npos);
}

TEST_F(Clusters, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(complaint(""), "1: there is no [[machine]]");
  EXPECT_TRUE(complaint("[[machine]]\nlike = \"none.xml\"\n").starts_with("2: like: open "));
  EXPECT_TRUE(complaint(kTwoMachines).starts_with("5: correct: open "));
  EXPECT_EQ(complaint("[[machine]]\nlike = \"synthetic:core:1 pu:1\"\ncount = 2\n"),
            "1: several machines, and no [[rail]] between them");
  EXPECT_EQ(complaint("[[machine]]\nlike = \"synthetic:core:1 pu:1\"\n[[rail]]\nnics = [\"a\"]\n"),
            "4: nics: no machine has a");
  EXPECT_EQ(complaint("[[machine]]\nlike = \"synthetic:core:1 pu:1\"\n[[rail]]\n"),
            "3: a [[rail]] needs nics: [\"mlx5_0\"]");
  EXPECT_TRUE(complaint("[[machine]]\nlike = \"synthetic:core:1 pu:1\"\n[[rails]]\n")
                  .starts_with("3: unknown key 'rails'"));
  EXPECT_TRUE(complaint("[[machine]]\nlike = \"synthetic:core:1 pu:1\"\nranks = 0\n")
                  .starts_with("3: ranks: 0 is not in"));
  const std::string eight = "[[machine]]\nlike = \"" WEFT_EXAMPLES "/machines/8gpu-8nic.xml\"\n";
  EXPECT_EQ(complaint(eight + "[[rail]]\nnics = [\"eno1\"]\n"),
            "3: the rate of eno1 on machine 0 is not known: say gbit_per_s here");
  EXPECT_EQ(complaint(eight + "[[machine]]\nlike = \"synthetic:core:1 pu:1\"\n"
                              "[[rail]]\ngbit_per_s = 1\nnics = [\"eno1\"]\n"),
            "7: nics: only one machine has eno1: nobody shares this rail");
  EXPECT_EQ(complaint(eight + "[[rail]]\nnics = [\"mlx5_0\"]\ngbit_per_s = 1\n[[rail]]\nname = "
                              "\"copy\"\ngbit_per_s = 1\nnics = [\"mlx5_0\"]\n"),
            "9: nics: mlx5_0 of machine 0 is on rail 0 already");
}

// Levels begin in line 5.
TEST_F(Clusters, MistakesInLevelsAreNamedWithTheirLine) {
  const auto complaint_of = [this](const std::string& levels) {
    return complaint("[[machine]]\nlike = \"" WEFT_EXAMPLES
                     "/machines/8gpu-8nic.xml\"\n[[rail]]\nnics = [\"mlx5_0\"]\n" +
                     levels);
  };
  const std::string leaves = "[[rail.level]]\nmachines = 16\n";
  EXPECT_EQ(complaint_of("top = false\n"), "5: top: there is no [[rail.level]]");
  EXPECT_EQ(complaint_of("[[rail.level]]\nlatency_us = 1\n"),
            "5: a [[rail.level]] needs machines: how many are below each switch");
  for (const std::string machines : {"24", "16", "8"}) {
    EXPECT_EQ(
        complaint_of(leaves + "[[rail.level]]\nlatency_us = 1\nmachines = " + machines),
        "9: machines: " + machines + ": expected two or more times the 16 of the level below");
  }
  EXPECT_TRUE(complaint_of("[[rail.level]]\nmachines = 0\n").starts_with("6: machines: 0 is not"));
  EXPECT_TRUE(complaint_of(leaves + "oversubscription = 0.5\n")
                  .starts_with("7: oversubscription: 0.5 is not"));
  EXPECT_EQ(complaint_of(leaves + "oversubscription = 2\ngbit_per_s = 3200\n"),
            "8: gbit_per_s: oversubscription says this already");
  EXPECT_EQ(complaint_of(leaves + "[[rail.level]]\nmachines = 32\nstride = 2\n"),
            "9: stride: only the lowest level has one");
  for (const std::string key : {"oversubscription", "gbit_per_s", "latency_us"}) {
    EXPECT_EQ(complaint_of("top = false\n" + leaves + key + " = 2\n"),
              "8: " + key + ": with top = false nothing is above the highest level");
  }
  EXPECT_TRUE(complaint_of(leaves + "machines_per_leaf = 4\n")
                  .starts_with("7: unknown key 'machines_per_leaf'; known are: gbit_per_s, "));
  EXPECT_TRUE(complaint_of("machines_per_leaf = 4\n").starts_with("5: unknown key"));
  std::string nine;
  for (int level = 0; level < 9; ++level)
    nine += fmt::format("[[rail.level]]\nmachines = {}\n", 1 << level);
  EXPECT_EQ(complaint_of(nine), "21: more than 8 levels");
}

TEST_F(Clusters, TheFirstNameThatAMachineHasIsItsInterface) {
  const auto cluster = read("[[machine]]\nlike = \"" WEFT_EXAMPLES
                            "/machines/8gpu-8nic.xml\"\n[[rail]]\nnics = [\"absent\", \"mlx5_2\", "
                            "\"mlx5_0\"]\ngbit_per_s = 1\n");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  const int nic = cluster->rails[0].nics[0];
  EXPECT_EQ(cluster->machines[0].hardware->nics[static_cast<std::size_t>(nic)].name(), "mlx5_2");
}

// Another name of the rail may be right for some machines, so this is no mistake.
TEST_F(Clusters, ANameThatNoMachineHasIsSaid) {
  const Result<Cluster> cluster =
      read("[[machine]]\ncount = 2\nlike = \"" WEFT_EXAMPLES
           "/machines/8gpu-8nic.xml\"\n[[rail]]\nname = \"a\"\nnics = [\"mlx5_0\", \"mlx_1\", "
           "\"eno1\"]\ngbit_per_s = 100\n");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  EXPECT_EQ(cluster->remarks,
            std::vector<std::string>{"rail a: no machine has mlx_1, which its nics name"});
  EXPECT_NE(describe(*cluster).find("no machine has mlx_1"), std::string::npos);
}

// A link of PCI may be slower than the interface behind it.
TEST_F(Clusters, ARailIsAsFastAsPciLetsItBe) {
  std::ofstream(beside("fix.toml")) << "[[nic]]\nname = \"eth0\"\nmbit_per_s = 400_000\n"
                                       "pci_gbyte_per_s = 15.75\n";
  const std::string machines = std::string(kTwoMachines) + "[[rail]]\nnics = [\"eth0\"]\n";
  const Result<Cluster> cluster = read(machines);
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  EXPECT_EQ(cluster->rails[0].gbit_per_s, (std::vector<double>{126, 126}));
  EXPECT_NE(describe(*cluster).find("slowed down by PCI: eth0 to 126 of its 400 Gbit/s"),
            std::string::npos)
      << describe(*cluster);
  const Result<Cluster> told = read(machines + "gbit_per_s = 200\n");
  ASSERT_TRUE(told.ok()) << told.status().to_string();
  EXPECT_EQ(told->rails[0].gbit_per_s[0], 200);
}

TEST_F(Clusters, AVirtualFunctionOnARailOfItsOwnIsSaid) {
  std::ofstream(beside("fix.toml"))
      << "[[nic]]\nname = \"eth0\"\npci = \"0000:10:00.0\"\nbridges = [\"0000:00:01.0\"]\n"
         "mbit_per_s = 100_000\n[[nic]]\nname = \"eth1\"\nvirtual_function = true\n"
         "mbit_per_s = 100_000\nbridges = [\"0000:00:01.0\"]\n";
  const Result<Cluster> cluster = read(
      std::string(kTwoMachines) +
      "[[rail]]\nname = \"a\"\nnics = [\"eth0\"]\n[[rail]]\nname = \"b\"\nnics = [\"eth1\"]\n");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  ASSERT_EQ(cluster->remarks.size(), 1U);
  EXPECT_TRUE(cluster->remarks[0].starts_with("rail b: eth1 of machine 0 shares its wire"))
      << cluster->remarks[0];
}

TEST_F(Clusters, SizesAndNamesHaveBounds) {
  const std::string machine = "[[machine]]\nlike = \"synthetic:core:1 pu:1\"\n";
  EXPECT_EQ(complaint(machine + "count = 1_048_576\n" + machine), "4: more than 1048576 machines");
  std::string kinds;
  for (int i = 1; i <= 257; ++i)
    kinds += fmt::format("[[machine]]\nlike = \"synthetic:core:{} pu:1\"\n", i);
  EXPECT_EQ(complaint(kinds), "513: more than 256 kinds of machines");
  const std::string file = "[[machine]]\nlike = \"" WEFT_EXAMPLES "/machines/8gpu-8nic.xml\"\n";
  const std::string rail = "[[rail]]\nname = \"a\"\nnics = [\"eno1\"]\ngbit_per_s = 10\n";
  EXPECT_EQ(complaint(file + rail + rail), "8: name: there are two rails called a");
  for (const std::string rate : {"0", "-1", "nan", "inf", "\"10\""}) {
    EXPECT_TRUE(complaint(file + "[[rail]]\nnics = [\"eno1\"]\ngbit_per_s = " + rate + "\n")
                    .starts_with("5: gbit_per_s: "));
  }
}

TEST_F(Clusters, ABondAndItsPartsAreOneRail) {
  Machine machine;
  machine.nics.resize(3);
  const std::vector<std::string> names{"bond0", "eth0", "eth1"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    machine.nics[i].netdev = names[i];
    machine.nics[i].mbit_per_s = i == 0 ? 50'000 : 25'000;
    if (i != 0) machine.nics[i].bond = "bond0";
  }
  const Result<Cluster> cluster = uniform_cluster(std::make_shared<const Machine>(machine), 2, 1);
  ASSERT_TRUE(cluster.ok());
  ASSERT_EQ(cluster->rails.size(), 1U);
  EXPECT_EQ(cluster->rails[0].name, "bond0");
}

Nic virtual_function(const std::string& name, const std::string& of) {
  Nic nic;
  nic.netdev = name;
  nic.mbit_per_s = 100'000;
  nic.is_virtual_function = true;
  nic.physical_function = of;
  return nic;
}

// Whose card another interface has already is left out.
TEST_F(Clusters, AVirtualFunctionCountsWhereItsCardDoesNot) {
  const auto rails = [](const std::vector<Nic>& nics) {
    Machine machine;
    machine.nics = nics;
    std::vector<std::string> names;
    const auto cluster = uniform_cluster(std::make_shared<const Machine>(machine), 2, 1);
    if (cluster.ok()) {
      for (const Rail& rail : cluster->rails) names.push_back(rail.name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const Nic first = virtual_function("vf0", "0000:18:00.0");
  const Nic second = virtual_function("vf1", "0000:18:00.1");
  Nic card;
  card.netdev = "pf0";
  card.mbit_per_s = 100'000;
  card.place.address = "0000:18:00.0";
  EXPECT_EQ(rails({first, second}), (Names{"vf0", "vf1"}));
  EXPECT_EQ(rails({card, first, second}), (Names{"pf0", "vf1"}));
  EXPECT_EQ(rails({first, virtual_function("vf2", "0000:18:00.0")}), Names{"vf0"});
  card.mbit_per_s = -1;  // it is down
  EXPECT_EQ(rails({card, first}), Names{"vf0"});
  // Where nobody tells whose function it is, one below the same bridge is taken for its card.
  Nic unknown = virtual_function("vf3", "");
  card.mbit_per_s = 100'000;
  EXPECT_EQ(rails({unknown, virtual_function("vf4", "")}), (Names{"vf3", "vf4"}));
  EXPECT_EQ(rails({card, unknown}), (Names{"pf0", "vf3"})) << "of neither a place is told";
  unknown.place.bridges = card.place.bridges = {{"0000:16:00.0", 0}};
  EXPECT_EQ(rails({card, unknown}), Names{"pf0"});
  card.place.host_bridge = "0000:17";
  EXPECT_EQ(rails({card, unknown}), (Names{"pf0", "vf3"}));
}

TEST_F(Clusters, WithoutARateTheReasonIsTheOneThatItIs) {
  Machine machine;
  machine.source = "a machine";
  machine.unreadable = {"which network interfaces there are, because /sys is not mounted"};
  EXPECT_EQ(uniform_cluster(std::make_shared<const Machine>(machine), 2, 1).status().text(),
            "a machine: no network interface with a known rate (unknown: which network interfaces "
            "there are, because /sys is not mounted); correct it with a file (docs/hardware.md)");
}

TEST_F(Clusters, MachinesHaveNamesOfTheirOwn) {
  const auto machines = [](const std::string& name, int count) {
    return "[[machine]]\nlike = \"" WEFT_EXAMPLES "/machines/8gpu-8nic.xml\"\nranks = 1\n" +
           (name.empty() ? "" : "name = \"" + name + "\"\n") +
           (count == 0 ? "" : fmt::format("count = {}\n", count));
  };
  const std::string rail = "[[rail]]\nnics = [\"eno1\"]\ngbit_per_s = 1\n";
  const auto cluster = read(machines("a", 2) + machines("b", 2) + machines("", 2) + rail);
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  std::vector<std::string> names;
  for (const ClusterMachine& machine : cluster->machines) names.push_back(machine.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a0", "a1", "b0", "b1", "machine 4", "machine 5"}));
  EXPECT_EQ(complaint(machines("a", 2) + machines("a1", 0) + rail),
            "9: name: there are two machines called a1");
  EXPECT_EQ(complaint(machines("", 2) + machines("machine 1", 0) + rail),
            "8: name: there are two machines called machine 1");
}

TEST_F(Clusters, ARailThatNobodySharesIsRefused) {
  const std::string four = "[[machine]]\nlike = \"" WEFT_EXAMPLES
                           "/machines/8gpu-8nic.xml\"\nranks = 1\ncount = 4\n"
                           "[[rail]]\nnics = [\"eno1\"]\ngbit_per_s = 1\n";
  const std::string nobody =
      "6: nics: no two machines with eno1 are below one switch, and top = false: nobody shares "
      "this rail";
  const auto leaves = [](int machines, int stride) {
    return fmt::format("[[rail.level]]\nmachines = {}\nstride = {}\n", machines, stride);
  };
  EXPECT_EQ(complaint(four + "top = false\n" + leaves(1, 1)), nobody);
  EXPECT_EQ(complaint(four + "top = false\n" + leaves(2, 4)), nobody);
  EXPECT_TRUE(read(four + leaves(1, 1)).ok());
  EXPECT_TRUE(read(four + "top = false\n" + leaves(2, 1)).ok());
}

// And not the first of those that it might have had.
TEST_F(Clusters, MistakesNameTheInterfaceThatAMachineHas) {
  const std::string eight = "[[machine]]\nlike = \"" WEFT_EXAMPLES "/machines/8gpu-8nic.xml\"\n";
  const std::string nics = "[[rail]]\nnics = [\"absent\", \"eno1\"]\n";
  EXPECT_EQ(complaint(eight + nics),
            "3: the rate of eno1 on machine 0 is not known: say gbit_per_s here");
  EXPECT_EQ(complaint(eight + "[[machine]]\nlike = \"synthetic:core:1 pu:1\"\n" + nics +
                      "gbit_per_s = 1\n"),
            "6: nics: only one machine has eno1: nobody shares this rail");
  EXPECT_EQ(complaint(eight + "count = 2\n" + nics +
                      "gbit_per_s = 1\ntop = false\n[[rail.level]]\nmachines = 1\n"),
            "5: nics: no two machines with eno1 are below one switch, and top = false: nobody "
            "shares this rail");
  EXPECT_EQ(complaint(eight + "[[rail]]\nnics = [\"absent\", \"gone\"]\n"),
            "4: nics: no machine has absent or gone");
}

// A machine that is not on a rail has no rate there.
TEST_F(Clusters, RatesAreThoseOfMachinesOnTheRail) {
  const std::string eight = "[[machine]]\nlike = \"" WEFT_EXAMPLES "/machines/8gpu-8nic.xml\"\n";
  const Result<Cluster> cluster =
      read(eight + "count = 2\n[[machine]]\nlike = \"synthetic:core:1 pu:1\"\n" +
           "[[rail]]\nname = \"x\"\nnics = [\"eno1\"]\ngbit_per_s = 10\n");
  ASSERT_TRUE(cluster.ok()) << cluster.status().to_string();
  EXPECT_NE(describe(*cluster).find("rail x: 2 machines, 10 Gbit/s, "), std::string::npos)
      << describe(*cluster);
}

TEST_F(Clusters, OfOneKindOfMachine) {
  Machine machine;
  machine.source = "a machine";
  EXPECT_EQ(uniform_cluster(std::make_shared<const Machine>(machine), 2, 1).status().code(),
            Code::unavailable);
  Nic nic;
  nic.netdev = "eth0";
  nic.mbit_per_s = 25'000;
  machine.nics = {nic};
  const Result<Cluster> cluster = uniform_cluster(std::make_shared<const Machine>(machine), 64, 4);
  ASSERT_TRUE(cluster.ok());
  EXPECT_EQ(cluster->ranks(), 256);
  ASSERT_EQ(cluster->rails.size(), 1U);
  EXPECT_EQ(cluster->rails[0].gbit_per_s[63], 25);
}

}  // namespace
}  // namespace weft
