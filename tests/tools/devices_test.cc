// `weft devices` on whatever machine this is: most have no RDMA device, some do.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"
#include "verbs/device/device.h"

namespace weft {
namespace {

nlohmann::json parsed(const Ran& ran) {
  std::string text;
  for (const std::string& line : ran.out) text += line + '\n';
  return nlohmann::json::parse(text, nullptr, false);
}

TEST(ShowDevices, TellsInterfacesAndPortsWithReasons) {
  const Ran ran = run_weft("devices");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.out, "not usable: reaches only this machine"));
  EXPECT_TRUE(mentions(ran.out, "RDMA"));
  const std::vector<RdmaPort> ports = discover_rdma_ports();
  for (const RdmaPort& port : ports) EXPECT_TRUE(mentions(ran.out, port.device));
  if (ports.empty()) {
    EXPECT_TRUE(mentions(ran.out, "no RDMA device: "));
    EXPECT_TRUE(mentions(ran.out, "/dev/infiniband") || mentions(ran.out, "namespace"));
  }
}

TEST(ShowDevices, JsonHasTheSame) {
  const Ran ran = run_weft("devices --json --peer 10.0.0.2/24");
  EXPECT_EQ(ran.exit_status, 0);
  const nlohmann::json object = parsed(ran);
  ASSERT_TRUE(object.is_object());
  ASSERT_FALSE(object["interfaces"].empty());
  EXPECT_TRUE(object["interfaces"][0].contains("reason"));
  const std::vector<RdmaPort> ports = discover_rdma_ports();
  std::size_t gids = 0;
  for (const RdmaPort& port : ports) gids += port.gids.size();
  EXPECT_EQ(object["rdma_ports"].size(), ports.size());
  EXPECT_EQ(object.contains("no_rdma"), ports.empty());
  EXPECT_EQ(object["peer"]["address"], "10.0.0.2/24");
  EXPECT_EQ(object["peer"]["ranking"].size(), gids);
}

TEST(ShowDevices, TellsWhichLibrariesAreThere) {
  const Ran table = run_weft("devices");
  const nlohmann::json object = parsed(run_weft("devices --json"));
  ASSERT_TRUE(object.is_object());
  ASSERT_EQ(object["libraries"].size(), 6U);
  for (const nlohmann::json& library : object["libraries"]) {
    EXPECT_TRUE(mentions(table.out, library["file"].get<std::string>()));
    EXPECT_EQ(library["found"].get<bool>(), library["reason"].get<std::string>().empty());
    if (!library["found"]) {
      EXPECT_TRUE(mentions(table.out, "install " + library["package"].get<std::string>()));
    }
  }
}

TEST(ShowDevices, SettingsOfRanksApply) {
  const nlohmann::json all = parsed(run_line("WEFT_INTERFACES=weft9 {weft} devices --json"));
  ASSERT_TRUE(all.is_object());
  EXPECT_EQ(all["remarks"][0], "WEFT_INTERFACES names weft9, which this machine does not have");
  for (const nlohmann::json& interface : all["interfaces"]) EXPECT_FALSE(interface["usable"]);
  const std::vector<NetworkInterface> interfaces = discover_interfaces();
  for (const NetworkInterface& each : interfaces) {
    if (!each.usable) continue;
    const Ran ran = run_line("WEFT_INTERFACES=weft9 {weft} devices");
    EXPECT_TRUE(mentions(ran.out, "not usable: WEFT_INTERFACES=weft9 does not name it"));
    const Folder folder;
    folder.write("fix.toml", "[[nic]]\nname = \"" + each.name + "\"\nabsent = true\n");
    const Ran absent = run_line("WEFT_HARDWARE=" + folder.path("fix.toml") + " {weft} devices");
    EXPECT_TRUE(mentions(absent.out, "says that it is absent"));
    break;
  }
  EXPECT_EQ(run_line("WEFT_HARDWARE=/nowhere.toml {weft} devices").exit_status, 1);
}

TEST(ShowDevices, APeerMustBeAnAddress) {
  EXPECT_EQ(run_weft("devices --peer 10.0.0.2").exit_status, 0);
  EXPECT_EQ(run_weft("devices --peer fe80::1/64").exit_status, 0);
  for (const char* peer : {"nonsense", "10.0.0.2/33", "10.0.0", "''"}) {
    const Ran ran = run_weft(std::string("devices --peer ") + peer);
    EXPECT_EQ(ran.exit_status, 2) << peer;
    ASSERT_EQ(ran.errors.size(), 1U) << peer;
    EXPECT_NE(ran.errors[0].find("--peer '"), std::string::npos) << ran.errors[0];
    EXPECT_TRUE(ran.out.empty()) << peer;
  }
}

}  // namespace
}  // namespace weft
