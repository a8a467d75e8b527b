// The `weft` command on a machine whose driver is the fake, in whatever state a test gives it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

std::string with(const std::string& fake) {
  return "LD_LIBRARY_PATH=" WEFT_CUDA_FAKES "/" + fake + " ";
}
const std::string kFake = with("cuda_fake");

nlohmann::json devices(const std::string& environment) {
  const Ran ran = run_line(environment + "{weft} devices --json");
  EXPECT_EQ(ran.exit_status, 0);
  std::string text;
  for (const std::string& line : ran.out) text += line;
  return nlohmann::json::parse(text, nullptr, false);
}

TEST(GpuTools, DevicesTellsEachGpu) {
  const nlohmann::json found = devices(kFake);
  ASSERT_EQ(found.at("gpus").size(), 2U);
  EXPECT_EQ(found.at("gpus")[1].at("name"), "FakeDriver 1");
  EXPECT_EQ(found.at("gpus")[1].at("pci"), "0000:a1:00.0");
  EXPECT_EQ(found.at("gpus")[1].at("compute_capability"), "9.0");
  EXPECT_EQ(found.at("cuda"), "12.0");
  const Ran table = run_line(kFake + "{weft} devices");
  EXPECT_TRUE(mentions(table.out, "FakeDriver 1"));
  EXPECT_TRUE(mentions(table.out, "CUDA driver 12.0"));
}

TEST(GpuTools, TopoTellsWhatEachGpuCanDo) {
  const Ran text = run_line(kFake + "{weft} topo");
  ASSERT_EQ(text.exit_status, 0);
  EXPECT_TRUE(mentions(text.out, "GPU 0 [0000:a0:00.0] FakeDriver 0: "));
  EXPECT_TRUE(mentions(text.out, "; reads GPU 0; "));
  const Ran json = run_line(kFake + "{weft} topo --json");
  std::string all;
  for (const std::string& line : json.out) all += line;
  const auto found = nlohmann::json::parse(all, nullptr, false).at("gpu_abilities").at("gpus");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at("reads"), nlohmann::json::array({1}));
  const Ran other = run_line(kFake + "{weft} topo --from 'synthetic:core:2 pu:1'");
  ASSERT_EQ(other.exit_status, 0);
  EXPECT_FALSE(mentions(other.out, "what GPUs can do:")) << "it is another machine";
}

TEST(GpuTools, DevicesTellsWhatADriverLacks) {
  EXPECT_EQ(devices(with("cuda_fake_old")).at("no_gpu"),
            "libcuda.so.1 is of CUDA 11.4; Weft needs 11.8 or newer");
  EXPECT_EQ(devices(with("cuda_fake_lacking")).at("no_gpu"),
            "libcuda.so.1 of CUDA 12.0 lacks cuStreamWaitValue32 of CUDA 11.8");
  const std::string none = devices(with("cuda_fake_empty")).at("no_gpu");
  EXPECT_NE(none.find("cuInit: CUDA_ERROR_NO_DEVICE"), std::string::npos) << none;
}

TEST(GpuTools, PerfOfOperationsByNameIsRight) {
  const Ran ran = run_line(kFake +
                           "{weft} perf named --tensors 3x300000 --ranks 2 --memory device --check "
                           "--seconds 0.05 --json -");
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  ASSERT_EQ(ran.out.size(), 5U);
  for (const std::string& line : ran.out) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    EXPECT_EQ(row.at("memory"), "device");
    EXPECT_GT(row.at("ratio"), 0) << line;
  }
}

TEST(GpuTools, PerfOnMemoryOfAGpuIsRightAndMeasuredBesideItsCopies) {
  for (const char* operation : {"neighbor_allreduce", "allreduce --in-place", "allgather"}) {
    const Ran ran = run_line(kFake + "{weft} perf " + operation +
                             " --ranks 2 --sizes 4,64K,1M --memory device --check --seconds 0.05 "
                             "--json -");
    ASSERT_EQ(ran.exit_status, 0) << operation << (ran.errors.empty() ? "" : ran.errors[0]);
    ASSERT_EQ(ran.out.size(), 3U) << operation;
    for (const std::string& line : ran.out) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      EXPECT_EQ(row.at("memory"), "device");
      EXPECT_GT(row.at("limit_us"), 0) << line;
    }
  }
}

TEST(GpuTools, LimitsOfEachGpu) {
  const Ran ran =
      run_line(kFake + "{weft} perf limits --ranks 2 --sizes 4K --seconds 0.01 --json -");
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  const auto row = nlohmann::json::parse(ran.out.at(0), nullptr, false);
  ASSERT_EQ(row.at("gpus").size(), 2U);
  for (const auto& gpu : row.at("gpus")) {
    EXPECT_GT(gpu.at("inside_gbyte_per_s"), 0);
    EXPECT_GT(gpu.at("out_gbyte_per_s"), 0);
    for (const auto& [type, shares] : gpu.at("sums_of_copy").items()) {
      ASSERT_EQ(shares.size(), 8U) << type;
      for (const auto& share : shares) EXPECT_GT(share, 0) << type;
    }
  }
  const Ran none = run_line("{weft} perf limits --ranks 2 --sizes 4 --seconds 0.01");
  EXPECT_TRUE(mentions(none.out, "GPU"));
}

// Ranks are processes: a GPU reads the blocks of another one.
TEST(GpuTools, SumsOnAGpuAreRight) {
  for (const char* operation : {"neighbor_allreduce", "allreduce --in-place", "reduce_scatter"}) {
    const Folder folder;
    const Ran ran =
        run_line(kFake + "WEFT_GPU_REDUCE=gpu WEFT_METRICS=" + folder.path("m") + " {weft} perf " +
                 operation + " --ranks 3 --sizes 2M --memory device --check --seconds 0.05");
    if (mentions(ran.errors, "no kernels for GPUs")) GTEST_SKIP() << ran.errors[0];
    ASSERT_EQ(ran.exit_status, 0) << operation << (ran.errors.empty() ? "" : ran.errors[0]);
    for (const char* rank : {"m.0", "m.1", "m.2"}) {
      const std::string metrics = folder.content(rank);
      EXPECT_EQ(metrics.find("weft_gpu_launches_total 0\n"), std::string::npos) << metrics;
      EXPECT_NE(metrics.find("weft_gpu_launches_total"), std::string::npos) << metrics;
    }
  }
}

// Ranks are processes, which map each other's memory.
TEST(GpuTools, RanksReadEachOthersGpus) {
  for (const char* operation : {"neighbor_allreduce", "allreduce --in-place", "reduce"}) {
    const Ran ran = run_line(kFake + "{weft} perf " + operation +
                             " --ranks 3 --sizes 2M --memory device --check --seconds 0.05 "
                             "--explain");
    if (mentions(ran.errors, "sums are the host's")) GTEST_SKIP() << "built without nvcc";
    ASSERT_EQ(ran.exit_status, 0) << operation << (ran.errors.empty() ? "" : ran.errors[0]);
    EXPECT_TRUE(mentions(ran.errors, "operations where it is (CUDA IPC)")) << operation;
    EXPECT_FALSE(mentions(ran.errors, ": 0 operations where it is")) << operation;
    EXPECT_TRUE(mentions(ran.errors, "; reads GPU 0 (CUDA IPC)")) << operation;
  }
}

TEST(GpuTools, WhereIpcIsShutBlocksAreUsedAndSayWhy) {
  const std::string operation =
      " {weft} perf allreduce --ranks 2 --sizes 2M --memory device --check --seconds 0.05 "
      "--explain";
  const Ran shut = run_line(with("cuda_fake_shut") + operation);
  ASSERT_EQ(shut.exit_status, 0) << (shut.errors.empty() ? "" : shut.errors[0]);
  if (mentions(shut.errors, "sums are the host's")) GTEST_SKIP() << "built without nvcc";
  EXPECT_TRUE(mentions(shut.errors, "0 operations where it is"));
  EXPECT_TRUE(mentions(shut.errors, "the peer's process cannot map its memory (CUDA IPC)"));
  EXPECT_TRUE(mentions(shut.errors, "; reads no GPU memory here: GPU 0: "));
  const Ran off = run_line(kFake + "WEFT_GPU_IPC=off" + operation);
  ASSERT_EQ(off.exit_status, 0) << (off.errors.empty() ? "" : off.errors[0]);
  EXPECT_TRUE(mentions(off.errors, "WEFT_GPU_IPC is off"));
}

TEST(GpuTools, PerfWithoutAGpuSaysSo) {
  const Ran ran =
      run_line("LD_LIBRARY_PATH=/nowhere {weft} perf allreduce --ranks 2 --memory device");
  if (ran.exit_status == 0) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(mentions(ran.errors, "no GPU can be used"));
  EXPECT_EQ(run_line("{weft} perf win_pages --memory device").exit_status, 2);
  EXPECT_EQ(run_line("{weft} perf mutex --memory device").exit_status, 2);
}

TEST(GpuTools, PerfOfWindowsWhoseTensorsAreOnGpus) {
  for (const char* operation : {"win_put", "win_get", "win_accumulate"}) {
    const Ran ran = run_line(kFake + "{weft} perf " + operation +
                             " --sizes 4,1M --memory device --check --seconds 0.05");
    EXPECT_EQ(ran.exit_status, 0) << operation << (ran.errors.empty() ? "" : ran.errors[0]);
  }
}

// Ranks are processes, each with a GPU of its own.
TEST(GpuTools, NcclRunsWhatItCan) {
  const std::string operation =
      " {weft} perf allreduce --ranks 2 --sizes 4M --memory device --check --seconds 0.3 --explain";
  const Ran ran =
      run_line(with("cuda_fake:" WEFT_CUDA_FAKES "/nccl_fake") + "WEFT_NCCL=on" + operation);
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  EXPECT_TRUE(mentions(ran.errors, "operations by NCCL 2.28.3"));
  EXPECT_TRUE(mentions(ran.out, "by NCCL"));
  const Ran newer = run_line(with("cuda_fake:" WEFT_CUDA_FAKES "/nccl_fake_new") + operation);
  ASSERT_EQ(newer.exit_status, 0) << (newer.errors.empty() ? "" : newer.errors[0]);
  EXPECT_TRUE(mentions(
      newer.errors, "libnccl.so.2 has version 3.1.0; Weft knows 2.14.0 and newer ones of NCCL 2"));
}

}  // namespace
}  // namespace weft
