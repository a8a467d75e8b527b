// A rank for a test of two hosts with two ranks and two rails each, on machines that are said to have
// a GPU below each interface's host bridge, crosswise: rail1 is near the first rank, rail0 near the
// second. Counts what really leaves by either interface. Prints what is wrong and exits with 1.
//
//   tools/netns -n 2 -p 2 -r 2 --each near_program
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/context/context.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 2'000'000;
constexpr std::uint64_t kBytes = kCount * sizeof(float);
constexpr std::uint64_t kLittle = kBytes / 8;  // control, acknowledgements

constexpr const char* kMachine = R"(
[[nic]]
name = "rail0"
pci = "0000:10:00.0"
host_bridge = "0000:10"
[[nic]]
name = "rail1"
pci = "0000:20:00.0"
host_bridge = "0000:20"
[[gpu]]
index = 0
pci = "0000:21:00.0"
host_bridge = "0000:20"
[[gpu]]
index = 1
pci = "0000:11:00.0"
host_bridge = "0000:10"
)";

std::uint64_t sent_by(int rail) {
  std::uint64_t bytes = 0;
  std::ifstream(fmt::format("/sys/class/net/rail{}/statistics/tx_bytes", rail)) >> bytes;
  return bytes;
}

Status wrong(const std::string& what) {
  return {Code::mismatch, what};
}

// The ranks with this local rank average with each other, nobody else sends.
Status average(Context& context, int local) {
  const int near = 1 - local;
  const std::uint64_t before[] = {sent_by(0), sent_by(1)};  // before any rank can send
  WEFT_RETURN_IF_ERROR(context.barrier());
  if (context.local_rank() == local) {
    const std::vector<float> x(kCount, static_cast<float>(context.machine_rank()));
    std::vector<float> y(kCount);
    WEFT_RETURN_IF_ERROR(context.pair_average(in(x.data(), kCount), out(y.data(), kCount),
                                              (context.rank() + 2) % 4));
    for (const float each : y) {
      if (each != 0.5F) return wrong(fmt::format("the mean of 0 and 1 is {}", each));
    }
  }
  WEFT_RETURN_IF_ERROR(context.barrier());
  const std::uint64_t over_near = sent_by(near) - before[near];
  const std::uint64_t over_far = sent_by(1 - near) - before[1 - near];
  if (over_near < kBytes || over_far > kLittle) {
    return wrong(
        fmt::format("local rank {}: {} bytes left by rail{}, which is near, and {} by the other",
                    local, over_near, near, over_far));
  }
  return {};
}

// The last rank joins when two others have talked: they do not wait for it to say what it has.
Status meet_before_the_last(const Config& config, Store& store, Context& context) {
  constexpr const char* kMet = "near/met";
  if (config.rank == 0 || config.rank == 2) {
    float x = 1;
    WEFT_RETURN_IF_ERROR(
        context.pair_average(in(&x, 1), out(&x, 1), (config.rank + 2) % config.size));
  }
  return config.rank == 0 ? store.put(kMet, "yes") : Status();
}

Status wait_for_the_others(const Config& config, Store& store) {
  if (config.rank != config.size - 1) return {};
  return store.get_from(0, "near/met", Deadline::after_ms(config.deadline_ms)).status();
}

// The same where rail0 must not be used.
Status without_rail0(Config config, const std::shared_ptr<Store>& store, const std::string& file) {
  const std::string corrected = file + ".absent";
  std::string machine = kMachine;
  constexpr std::string_view kFirst = "name = \"rail0\"\n";
  machine.insert(machine.find(kFirst) + kFirst.size(), "absent = true\n");
  std::ofstream(corrected) << machine;
  config.hardware = corrected;
  Result<std::unique_ptr<Context>> context = Context::create(config, store);
  std::filesystem::remove(corrected);
  WEFT_RETURN_IF_ERROR(context.status());
  return average(**context, 0);
}

Status check(const std::string& file) {
  WEFT_ASSIGN(Config config, Config::from_environment());
  config.hardware = file;
  WEFT_ASSIGN(std::shared_ptr<Store> store, open_store(config));
  WEFT_RETURN_IF_ERROR(wait_for_the_others(config, *store));
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_RETURN_IF_ERROR(meet_before_the_last(config, *store, *context));
  WEFT_RETURN_IF_ERROR(average(*context, 0));
  WEFT_RETURN_IF_ERROR(average(*context, 1));
  const int local = context->local_rank();
  const std::string told = context->explain();
  const std::string expected = fmt::format(
      "uses rail {}: rail{} and GPU {} are below one host bridge", 1 - local, 1 - local, local);
  if (told.find(expected) == std::string::npos)
    return wrong(fmt::format("'{}' is not in: {}", expected, told));
  return without_rail0(config, store, file);
}

}  // namespace
}  // namespace weft

int main() {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("near-{}.toml", getpid());
  std::ofstream(file) << weft::kMachine;
  const weft::Status status = weft::check(file);
  std::filesystem::remove(file);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
