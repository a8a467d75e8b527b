// Where a lane belongs, on machines as the kernel could describe them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/lane/lane.h"
#include "verbs/device/device.h"

namespace weft {
namespace {

using Numbers = std::vector<int>;

TEST(LanePlace, IsBesideTheInterfacesWhereTheyAreTogether) {
  const LanePlace found =
      with_cores(choose_node(Numbers{1, 1}, 0), Numbers{4, 5, 6, 7}, Numbers{0, 5, 6});
  EXPECT_EQ(found.node, 1);
  EXPECT_EQ(found.cores, (Numbers{5, 6}));
  EXPECT_EQ(found.reason, "bound to 2 cores of NUMA node 1, where its interfaces are");
}

TEST(LanePlace, IsWhereTheRankWorksIfThereIsAnInterface) {
  const LanePlace found =
      with_cores(choose_node(Numbers{0, 1, 1}, 1), Numbers{2, 3}, Numbers{0, 1, 2, 3});
  EXPECT_EQ(found.node, 1);
  EXPECT_EQ(found.cores, (Numbers{2, 3}));
  EXPECT_EQ(found.reason, "bound to 2 cores of NUMA node 1, where it works and has an interface");
}

TEST(LanePlace, IsAnywhereElse) {
  const struct {
    LanePlace found;
    const char* reason;
  } kCases[] = {{choose_node(Numbers{}, 0), ""},
                {choose_node(Numbers{0, 1}, -1), "nodes 0 and 1"},
                {choose_node(Numbers{0, 1}, 2), "nodes 0 and 1"},
                {choose_node(Numbers{0, -1}, 0), "nobody says"},
                {choose_node(Numbers{-1}, -1), "nobody says"}};
  for (const auto& each : kCases) {
    const LanePlace found = with_cores(each.found, Numbers{0, 1}, Numbers{0, 1});
    EXPECT_EQ(found.node, -1);
    EXPECT_TRUE(found.cores.empty());
    EXPECT_EQ(found.reason.empty(), *each.reason == '\0') << found.reason;
    EXPECT_NE(found.reason.find(each.reason), std::string::npos) << found.reason;
  }
}

// Whoever started the process has bound it elsewhere: the memory of slots is the card's all the
// same.
TEST(LanePlace, KeepsToTheCoresThatAreAllowed) {
  const LanePlace found = with_cores(choose_node(Numbers{1}, -1), Numbers{4, 5}, Numbers{0, 1});
  EXPECT_EQ(found.node, 1);
  EXPECT_TRUE(found.cores.empty());
  EXPECT_NE(found.reason.find("may not run on NUMA node 1"), std::string::npos) << found.reason;
}

TEST(LanePlace, ReadsWhatTheKernelLists) {
  EXPECT_EQ(number_list("0-2,5,7-8"), (Numbers{0, 1, 2, 5, 7, 8}));
  EXPECT_EQ(number_list("0-2,1-3,0"), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(number_list(""), Numbers());
  EXPECT_EQ(number_list("3-x"), Numbers());
  EXPECT_EQ(number_list("0,99999999999,2"), Numbers{0});
  const std::filesystem::path sys =
      std::filesystem::temp_directory_path() / ("lane_place-" + std::to_string(getpid()));
  const std::filesystem::path node = sys / "devices/system/node";
  std::filesystem::create_directories(node / "node1");
  std::ofstream(node / "online") << "0-1\n";
  std::ofstream(node / "node1/cpulist") << "0-1023\n";
  EXPECT_FALSE(place_lane_here(Numbers{1, 1}, -1, sys).cores.empty());
  EXPECT_FALSE(place_lane_here(Numbers{0, 1}, 1, sys).cores.empty());
  EXPECT_TRUE(place_lane_here(Numbers{0, 1}, 0, sys).cores.empty());
  EXPECT_EQ(node_of_cores(sys), 1);
  std::ofstream(node / "node1/cpulist") << "1000-1023\n";
  EXPECT_EQ(node_of_cores(sys), -1);
  std::ofstream(node / "online") << "0\n";
  EXPECT_EQ(place_lane_here(Numbers{1}, -1, sys).node, -1) << "there is one node only";
  std::filesystem::remove_all(sys);
}

TEST(LanePlace, ThreadsAreBoundToCoresThatThereAre) {
  std::thread([] {
    EXPECT_TRUE(bind_thread({}).ok());
    EXPECT_EQ(bind_thread({0, {1023}, ""}).code(), Code::system);
  }).join();
}

}  // namespace
}  // namespace weft
