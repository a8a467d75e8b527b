// weft perf from end to end: ranks as processes, every result checked, the numbers as JSON.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/base/sanitized.h"
#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

using Rows = std::vector<nlohmann::json>;

Rows rows_of(const std::string& arguments) {
  const Ran ran = run_weft("perf " + arguments + " --seconds 0.05 --json -");
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  Rows rows;
  for (const std::string& line : ran.out) {
    rows.push_back(nlohmann::json::parse(line, nullptr, false));
    EXPECT_TRUE(rows.back().is_object()) << line;
  }
  return rows;
}

void expect_row(const nlohmann::json& row) {
  for (const char* key :
       {"op", "graph", "ranks", "transport", "bytes", "min_us", "p50_us", "p99_us", "algbw_GBps",
        "busbw_GBps", "limit_us", "share", "cpu_s_per_GiB"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_GT(row.value("share", 0.0), 0);
  EXPECT_GT(row.value("min_us", 0.0), 0);
  EXPECT_LE(row.value("min_us", 0.0), row.value("p50_us", 0.0));
  EXPECT_LE(row.value("p50_us", 0.0), row.value("p99_us", 0.0));
}

class EveryOperation : public testing::TestWithParam<const char*> {};

TEST_P(EveryOperation, IsRightAndMeasured) {
  const Rows rows = rows_of(GetParam());
  ASSERT_FALSE(rows.empty());
  for (const nlohmann::json& row : rows) expect_row(row);
}

INSTANTIATE_TEST_SUITE_P(
    Perf, EveryOperation,
    testing::Values("neighbor_allreduce --ranks 4 --sizes 4,100,64K,1M --check",
                    "neighbor_allreduce --ranks 3 --graph star --sizes 4,64K --check",
                    "neighbor_allreduce --ranks 2 --sizes 4,64K --check --memory private",
                    "neighbor_allreduce --ranks 2 --sizes 4,64K --check --in-place",
                    "neighbor_allreduce --ranks 2 --sizes 4,64K --check --in-process",
                    "neighbor_allreduce --ranks 1 --sizes 4,64K --check",
                    "neighbor_allreduce --ranks 2 --sizes 8,64K --check --type bf16",
                    "neighbor_allreduce --ranks 2 --sizes 8,64K --check --type f16",
                    "neighbor_allgather --ranks 3 --sizes 4,64K --check",
                    "allreduce --ranks 3 --sizes 4,64K --check",
                    "allreduce --ranks 2 --sizes 8,64K --check --type i64",
                    "allreduce --ranks 2 --sizes 8,64K --check --type i16",
                    "allgather --ranks 2 --sizes 8,64K --check --type bytes",
                    "allreduce --ranks 4 --sizes 4,64K --check --algorithm bcube",
                    "allreduce --ranks 3 --sizes 4,64K --check --algorithm mesh",
                    "broadcast --ranks 3 --sizes 4,64K --check", "barrier --ranks 3",
                    "allgather --ranks 3 --sizes 4,64K --check"));

// What docs/errors.md recommends where the shared heap cannot be made.
TEST(Perf, HeapsAreAsTheSettingsSay) {
  const auto expect_ok_with = [](const std::string& setting, const std::string& what) {
    const Ran ran = run_line(setting + " {weft} perf " + what + " --ranks 2 --seconds 0.01");
    EXPECT_EQ(ran.exit_status, 0) << setting << " " << what
                                  << (ran.errors.empty() ? "" : ran.errors[0]);
  };
  const std::vector<std::string> kinds = {"neighbor_allreduce --sizes 4K", "limits --sizes 4K",
                                          "neighbor_allreduce --sizes 4K --in-flight 4", "idle",
                                          "neighbor_allreduce --sizes 4K --in-process"};
  for (const std::string& what : some_of(kinds)) expect_ok_with("WEFT_HEAP_MIB=512", what);
  for (const char* setting : {"WEFT_SHM_DIR=/dev/shm", "WEFT_HUGE_PAGES=off"})
    expect_ok_with(setting, "neighbor_allreduce --sizes 4K");
}

// A file that is asked for has all rows, or the command fails and names it.
TEST(Perf, AFullDiskIsAnError) {
  const std::vector<std::string> kinds = {"allreduce --ranks 2",
                                          "allreduce --ranks 2 --in-process",
                                          "limits --ranks 2",
                                          "win_put",
                                          "neighbor_allreduce --ranks 2 --in-flight 4",
                                          "idle --ranks 2",
                                          "named --ranks 2 --tensors 4x64",
                                          "neighbor_allreduce --memory-use",
                                          "wire --transport ucx"};
  for (const std::string& what : some_of(kinds)) {
    if (what.starts_with("wire") && WEFT_HAS_UCX == 0) continue;
    const std::string line = "perf " + what + " --sizes 4K --seconds 0.01";
    const Ran file = run_weft(line + " --json /dev/full");
    EXPECT_EQ(file.exit_status, 1) << what;
    EXPECT_TRUE(mentions(file.errors, "cannot write /dev/full: No space left")) << what;
    if (what.starts_with("limits")) continue;  // which takes long
    const Ran output = run_weft(line + " --json > /dev/full");
    EXPECT_EQ(output.exit_status, 1) << what;
    EXPECT_TRUE(mentions(output.errors, "cannot write standard output: No space left")) << what;
  }
  const Ran drawn = run_weft("perf allreduce --ranks 2 --sizes 4K --svg /nowhere/x.svg");
  EXPECT_EQ(drawn.exit_status, 1);
  EXPECT_TRUE(mentions(drawn.errors, "cannot write /nowhere/x.svg: No such file"));
  EXPECT_TRUE(drawn.out.empty());  // before anything was measured
}

// Every kind of measurement writes the file that --json names, beside its text.
TEST(Perf, AFileOfRowsIsWrittenBesideTheText) {
  const Folder folder;
  const std::vector<std::string> kinds = {
      "allreduce --ranks 2", "limits --ranks 2", "idle --ranks 2",
      "neighbor_allreduce --ranks 2 --in-flight 4", "named --ranks 2 --tensors 4x64"};
  for (const std::string& what : some_of(kinds)) {
    const Ran ran =
        run_weft("perf " + what + " --sizes 4K --seconds 0.01 --json " + folder.path("rows.json"));
    EXPECT_EQ(ran.exit_status, 0) << what;
    EXPECT_FALSE(ran.out.empty()) << what;
    const std::string rows = folder.content("rows.json");
    EXPECT_TRUE(nlohmann::json::accept(rows.substr(0, rows.find('\n')))) << what;
    std::filesystem::remove(folder.path("rows.json"));
  }
}

// Where no option says otherwise; what an option overrides is said.
TEST(Perf, TheUsersSettingsHold) {
  const std::string line = "{weft} perf allreduce --ranks 2 --sizes 4K --seconds 0.01 --json";
  if (WEFT_HAS_UCX != 0) {
    const Ran asked = run_line("WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo " + line);
    EXPECT_EQ(asked.exit_status, 0);
    ASSERT_EQ(asked.out.size(), 1U);
    const auto row = nlohmann::json::parse(asked.out[0]);
    EXPECT_EQ(row["transport"], "ucx");
    EXPECT_GT(row["network_bytes"][0].get<double>(), 0);
    const Ran missing = run_line("WEFT_TRANSPORTS=ucx WEFT_INTERFACES=nothere0 " + line);
    EXPECT_EQ(missing.exit_status, 1);
    EXPECT_TRUE(mentions(missing.errors, "WEFT_INTERFACES names nothere0"));
  }
  const Ran ran = run_line("WEFT_TRANSPORTS=ucx WEFT_INTERFACES=lo WEFT_LANES=2 " + line +
                           " --transport shm --lanes 1");
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_EQ(ran.errors,
            (std::vector<std::string>{
                "weft perf: --transport shm overrides WEFT_TRANSPORTS=ucx",
                "weft perf: --transport shm opens no network: not used is WEFT_INTERFACES=lo",
                "weft perf: --lanes 1 overrides WEFT_LANES=2"}));
}

TEST(Perf, SaysHowRanksOfSeveralMachinesAreMeasured) {
  const Ran ran = run_line(
      "{weft} run -n 2 --no-tag -- sh -c 'WEFT_HOST=h$WEFT_RANK {weft} perf allreduce --sizes 4'");
  EXPECT_NE(ran.exit_status, 0);
  EXPECT_TRUE(mentions(ran.errors,
                       "--transport shm, the default, ends at a machine; automatic "
                       "goes on over a network"));
}

// As in a container without the right to trace.
TEST(Perf, WithoutProcessVmReadvARowHasNoLimit) {
  const std::string line = WEFT_WITHOUT_READV " {weft} perf ";
  const std::string large = kIsSanitized ? "1M" : "16M";
  const std::string rest = " --ranks 2 --memory private --sizes 64K," + large + " --seconds 0.02";
  const Ran ran = run_line(line + "neighbor_allreduce --check" + rest);
  EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  EXPECT_TRUE(mentions(ran.out, "   64K "));
  EXPECT_TRUE(mentions(ran.out, " " + large + " "));
  EXPECT_TRUE(mentions(ran.out, "          -      - "));
  EXPECT_TRUE(mentions(ran.errors, "no limit: process_vm_readv from process"));
  const Ran limits = run_line(line + "limits" + rest);
  EXPECT_EQ(limits.exit_status, 0);
  EXPECT_TRUE(mentions(limits.out, "   64K            -"));
}

TEST(Perf, OperationsWithoutALimitAreCheckedAllTheSame) {
  const std::vector<std::string> operations = {"reduce_scatter", "reduce", "gather", "scatter",
                                               "alltoall"};
  for (const std::string& operation : some_of(operations)) {
    for (const nlohmann::json& row : rows_of(operation + " --ranks 3 --sizes 4,64K,1M --check")) {
      EXPECT_GT(row.value("p50_us", 0.0), 0) << row;
      EXPECT_FALSE(row.contains("share")) << row;
    }
  }
}

// Messages of private memory that are staged, and those that the receiver reads by process_vm_readv.
TEST(Perf, PrivateMemoryArrivesWhicheverWayItTakes) {
  const std::vector<std::string> operations = {"neighbor_allreduce",
                                               "neighbor_allgather",
                                               "allreduce",
                                               "broadcast",
                                               "allgather",
                                               "reduce_scatter",
                                               "reduce",
                                               "gather",
                                               "scatter",
                                               "alltoall"};
  for (const std::string& operation : some_of(operations)) {
    for (const nlohmann::json& row :
         rows_of(operation + " --ranks 3 --sizes 64K,1M --memory private --check"))
      EXPECT_GT(row.value("p50_us", 0.0), 0) << row;
  }
}

// Of what is summed, and of what is only moved.
TEST(Perf, BothWaysOfPrivateMemoryAreMeasured) {
  for (const std::string operation : {"neighbor_allreduce", "neighbor_allgather"}) {
    const Ran ran =
        run_line("{weft} perf " + operation +
                 " --ranks 2 --memory private --sizes 64K --seconds 0.2 --check --explain");
    EXPECT_EQ(ran.exit_status, 0);
    EXPECT_TRUE(mentions(ran.errors, "private memory, " + operation + " of 2^16 bytes"));
    EXPECT_FALSE(mentions(ran.errors, "not measured"));
  }
}

// Machines that differ in their ranks, over whatever network there is.
TEST(Perf, MachinesPlayedHereExchange) {
  if (WEFT_HAS_UCX == 0) GTEST_SKIP() << "this build has no network for one machine";
  for (const char* more : {"", " --dynamic", " --in-place --type f64"}) {
    const Rows rows =
        rows_of(std::string("hierarchical_neighbor_allreduce --ranks 5 --hosts 3 --transport "
                            "automatic --sizes 8,64K --check") +
                more);
    ASSERT_EQ(rows.size(), 2U) << more;
    for (const nlohmann::json& row : rows) {
      EXPECT_GT(row.value("p50_us", 0.0), 0) << row;
      EXPECT_EQ(row.value("hosts", 0), 3);
      EXPECT_EQ(row.value("allocations", -1), 0);
      const std::vector<double> sent = row.value("network_bytes", std::vector<double>());
      ASSERT_EQ(sent.size(), 5U);
      EXPECT_DOUBLE_EQ(std::accumulate(sent.begin(), sent.end(), 0.0),
                       3 * 2 * row.value("bytes", 0))
          << "a tensor from each machine to both others";
    }
  }
}

TEST(Perf, FixedBitsAreTimedBesideOthers) {
  const Rows rows = rows_of("allreduce --ranks 2 --sizes 4,64K --bits fixed --check");
  ASSERT_EQ(rows.size(), 2U);
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row.value("bits", ""), "fixed");
    EXPECT_GT(row.value("auto_p50_us", 0.0), 0);
    EXPECT_GT(row.value("price", 0.0), 0);
  }
  EXPECT_TRUE(
      mentions(run_weft("perf allreduce --bits fixed --algorithm ring").errors, "rank order"));
  EXPECT_TRUE(mentions(run_weft("perf broadcast --bits fixed").errors, "--bits: broadcast"));
}

TEST(Perf, NewWeightsAtEveryCallAreRightAndAllocateNothing) {
  for (const char* graph : {"exponential", "one_peer_exponential"}) {
    const Rows rows = rows_of(
        std::string("neighbor_allreduce --ranks 4 --sizes 4,64K --check --dynamic --graph ") +
        graph);
    ASSERT_EQ(rows.size(), 2U);
    for (const nlohmann::json& row : rows) {
      expect_row(row);
      EXPECT_GT(row.value("dynamic_ratio", 0.0), 0);
      EXPECT_EQ(row.value("allocations", -1), 0);
    }
  }
}

TEST(Perf, JoinsAJobThatSomebodyElseStarted) {
  const Ran ran = run_weft(
      "run -n 2 --no-tag -- {weft} perf neighbor_allreduce --sizes 64K --check --seconds 0.05 "
      "--json -");
  ASSERT_EQ(ran.exit_status, 0);
  ASSERT_EQ(ran.out.size(), 1U);
  EXPECT_EQ(nlohmann::json::parse(ran.out[0])["ranks"], 2);
}

TEST(Perf, MeasuresAPeerInTurn) {
  const auto peer = std::filesystem::path(WEFT_PROGRAM).parent_path() / "peer_openmpi";
  if (!std::filesystem::exists(peer)) GTEST_SKIP() << "built without MPI";
  const Rows rows = rows_of("neighbor_allreduce --ranks 2 --sizes 4,64K --against openmpi");
  ASSERT_EQ(rows.size(), 2U);
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row.value("peer", ""), "openmpi");
    EXPECT_GT(row.value("peer_p50_us", 0.0), 0);
    EXPECT_GT(row.value("speedup", 0.0), 0);
  }
}

TEST(Perf, LimitsAndIdleRun) {
  EXPECT_EQ(run_weft("perf limits --ranks 2 --sizes 4,1M --seconds 0.05 --check").exit_status, 0);
  const Rows limits = rows_of("limits --ranks 2 --sizes 4,1M");
  ASSERT_EQ(limits.size(), 1U);
  EXPECT_GT(limits[0]["lane_gbyte_per_s"].get<double>(), 0.01);
  EXPECT_TRUE(limits[0].contains("two_lanes_gbyte_per_s"));
  EXPECT_EQ(limits[0]["idle_turn_ns"]["ucx"].is_number(), WEFT_HAS_UCX != 0);
  ASSERT_EQ(limits[0]["floor"].size(), 2U);
  EXPECT_EQ(limits[0]["floor"][1]["bytes"], 1 << 20);
  const Rows rows = rows_of("idle --ranks 2");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(rows[0].contains("core_share"));
}

TEST(Perf, WireMeasuresEveryOperationOverUcx) {
  for (const char* words : {"--op write --sizes 64K", "--op write --sizes 8 --depth 1",
                            "--op read --sizes 1K", "--op notice --sizes 8,1M", "--op atomic"}) {
    const Ran ran =
        run_weft(std::string("perf wire --transport ucx --seconds 0.05 --json - ") + words);
    if (mentions(ran.errors, "built without UCX")) GTEST_SKIP() << "built without UCX";
    ASSERT_EQ(ran.exit_status, 0) << words << (ran.errors.empty() ? "" : ran.errors[0]);
    for (const std::string& line : ran.out) {
      const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
      ASSERT_TRUE(row.is_object()) << line;
      EXPECT_GT(row.value("MiBps", 0.0), 0) << line;
      EXPECT_GE(row.value("peak_MiBps", 0.0), row.value("MiBps", 0.0) * 0.99) << line;
      EXPECT_LE(row.value("p50_us", 0.0), row.value("p999_us", 0.0)) << line;
    }
  }
}

// What is wrong and the word that the error must name.
struct Wrong {
  const char* arguments;
  const char* named;
};

class BadInput : public testing::TestWithParam<Wrong> {};

TEST_P(BadInput, IsOneClearError) {
  const Ran ran = run_weft(std::string("perf ") + GetParam().arguments);
  EXPECT_EQ(ran.exit_status, 2);
  EXPECT_TRUE(ran.out.empty());
  ASSERT_EQ(ran.errors.size(), 1U);
  EXPECT_NE(ran.errors[0].find(GetParam().named), std::string::npos) << ran.errors[0];
}

INSTANTIATE_TEST_SUITE_P(
    Perf, BadInput,
    testing::Values(
        Wrong{"nonsense", "unknown operation 'nonsense'"},
        Wrong{"allreduce --graph nonsense", "nonsense"},
        Wrong{"allreduce --sizes 4,12Q", "--sizes: '12Q' is no size"},
        Wrong{"--json allreduce", "--json took allreduce for its file"},
        Wrong{"allreduce --sizes 3", "elements of 4 bytes"},
        Wrong{"allreduce --sizes 99999999999G", "is no size"},
        Wrong{"allreduce --ranks 0", "--ranks 0"}, Wrong{"allreduce --ranks -3", "--ranks -3"},
        Wrong{"allreduce --type f99", "f99"}, Wrong{"neighbor_allreduce --type i32", "i32"},
        Wrong{"allreduce --type bytes", "bytes"}, Wrong{"allreduce --transport pigeons", "pigeons"},
        Wrong{"allreduce --memory stone", "stone"}, Wrong{"allreduce --against nobody", "nobody"},
        Wrong{"allreduce --dynamic", "has no weights"}, Wrong{"", "OPERATION is missing"},
        Wrong{"allreduce --hosts 9", "--hosts 9"},
        Wrong{"hierarchical_neighbor_allreduce --hosts 2", "--transport shm"},
        Wrong{"hierarchical_neighbor_allreduce --against openmpi", "--against"},
        Wrong{"allreduce --algorithm star", "star"},
        Wrong{"broadcast --algorithm ring", "--algorithm"}, Wrong{"wire --op push", "--op push"},
        Wrong{"wire --sizes 12Q", "--sizes"}, Wrong{"wire --peer nowhere", "--peer nowhere"},
        Wrong{"neighbor_allreduce --graph hypercube --ranks 3", "power of two"}));

TEST(Perf, AJsonFileThatCannotBeWrittenIsAnError) {
  const Ran ran = run_weft("perf barrier --ranks 2 --seconds 0.05 --json /nonexistent/file");
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_TRUE(mentions(ran.errors, "/nonexistent/file"));
}

}  // namespace
}  // namespace weft
