// What works on a machine without hwloc, and what the rest says.
#include <algorithm>

#include "tests/hardware/machines.h"
#include "topology/hardware/files.h"

namespace weft {
namespace {

using namespace hardware;

constexpr const char* kAbsent = "libhwloc-of-no-machine.so.15";

HwlocLibrary absent() {
  return load_hwloc(kAbsent).status();
}

bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// That the library is missing, and how to get it.
void expect_says_what_to_install(const Status& status) {
  EXPECT_EQ(status.code(), Code::unavailable) << status.to_string();
  EXPECT_TRUE(says(status.text(), "hwloc is missing (install libhwloc15): ")) << status.text();
  EXPECT_TRUE(says(status.text(), kAbsent)) << status.text();
}

TEST(WithoutHwloc, TheLibraryIsNamed) {
  expect_says_what_to_install(absent().status());
}

TEST(WithoutHwloc, AnotherLibraryOfThatNameIsNotHwloc) {
  const Status status = load_hwloc("libc.so.6").status();
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_TRUE(says(status.text(), "libc.so.6 has no hwloc_topology_init")) << status.text();
}

TEST(WithoutHwloc, ThisMachineIsStillFound) {
  const Result<Machine> machine = discover(absent());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->source, "this machine");
  EXPECT_GE(machine->threads, 1);
  EXPECT_GT(machine->memory_bytes, std::uint64_t{1} << 20);
  EXPECT_FALSE(machine->nodes.empty());
  const std::vector<std::string> unknown = unknown_in(*machine);
  EXPECT_TRUE(std::ranges::any_of(unknown, [](const std::string& phrase) {
    return phrase.starts_with("caches, because hwloc is missing (install libhwloc15): ");
  }));
}

TEST(WithoutHwloc, TheWaysOutAreTheSame) {
  const Result<Machine> with = discover_machine(), without = discover(absent());
  ASSERT_TRUE(with.ok() && without.ok());
  const auto names = [](const Machine& machine) {
    std::vector<std::string> all;
    for (const Nic& nic : machine.nics) all.push_back(nic.name());
    return all;
  };
  EXPECT_EQ(names(*without), names(*with));
}

TEST(WithoutHwloc, FilesOfHwlocsCannotBeRead) {
  const Status file = read(absent(), eight_gpus()).status();
  expect_says_what_to_install(file);
  EXPECT_TRUE(file.text().starts_with(eight_gpus() + ": ")) << file.text();
  const Status synthetic = read(absent(), "synthetic:core:2 pu:1").status();
  expect_says_what_to_install(synthetic);
  EXPECT_TRUE(synthetic.text().starts_with("synthetic:core:2 pu:1: ")) << synthetic.text();
}

TEST(WithoutHwloc, MistakesInFilesAreStillTold) {
  const TextFile file("<svg/>");
  EXPECT_EQ(read(absent(), file.path()).status().code(), Code::invalid_argument);
  EXPECT_EQ(read(absent(), "synthetic:").status().code(), Code::invalid_argument);
}

TEST(WithoutHwloc, NothingCanBeWrittenInItsFormat) {
  expect_says_what_to_install(exported(absent(), "", "").status());
  expect_says_what_to_install(exported(absent(), eight_gpus(), "").status());
}

TEST(WithoutHwloc, FilesOfNcclsNeedNone) {
  const TextFile file(
      R"(<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64"><pci busid="0000:10:00.0" class="0x030200"/></cpu></system>)");
  const Result<Machine> machine = read(absent(), file.path());
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_EQ(machine->gpus.size(), 1U);
}

}  // namespace
}  // namespace weft
