// weft predict --chakra: a step as Chakra traces have it, played on a cluster.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <protozero/pbf_writer.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

// Numbers of the schema.
constexpr std::uint64_t kComputation = 4, kSend = 5, kReceive = 6, kCollective = 7;
constexpr std::uint64_t kAllReduce = 0, kAllGather = 2, kBarrier = 9;

using Attributes = std::vector<std::pair<std::string, std::uint64_t>>;

std::string framed(const std::string& message) {
  std::string bytes;
  protozero::add_varint_to_buffer(&bytes, message.size());
  return bytes + message;
}

std::string head() {
  std::string message;
  protozero::pbf_writer(message).add_string(1, "0.0.4");
  return framed(message);
}

std::string node(std::uint64_t id, std::uint64_t type, std::uint64_t us,
                 const std::vector<std::uint64_t>& after, const Attributes& attributes = {}) {
  std::string message;
  protozero::pbf_writer out(message);
  if (id != 0) out.add_uint64(1, id);
  out.add_string(2, fmt::format("node {}", id));
  out.add_enum(3, static_cast<std::int32_t>(type));
  out.add_packed_uint64(5, after.begin(), after.end());
  out.add_uint64(7, us);
  for (const auto& [name, value] : attributes) {
    protozero::pbf_writer attribute(out, 10);
    attribute.add_string(1, name);
    attribute.add_int64(9, static_cast<std::int64_t>(value));
  }
  return framed(message);
}

std::string collective(std::uint64_t id, std::uint64_t what, std::uint64_t bytes,
                       const std::vector<std::uint64_t>& after) {
  return node(id, kCollective, 0, after, {{"comm_type", what}, {"comm_size", bytes}});
}

class Chakra : public testing::Test {
 protected:
  [[nodiscard]] Ran predict(const std::string& files) const {
    return run_weft(fmt::format("predict --cluster {} {} --json", folder_.tree(), files));
  }
  [[nodiscard]] nlohmann::json step(const std::string& files) const {
    const Ran ran = predict(files);
    EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors.front());
    return ran.out.empty() ? nlohmann::json()
                           : nlohmann::json::parse(ran.out.front(), nullptr, false);
  }
  // The complaint about one file with these bytes.
  [[nodiscard]] std::string complaint(const std::string& bytes) const {
    folder_.write("bad.et", bytes);
    const Ran ran = predict("--chakra " + folder_.path("bad.et"));
    EXPECT_EQ(ran.exit_status, 2);
    return ran.errors.empty() ? "" : ran.errors.front();
  }
  // One for each rank, NAME.RANK.et.
  [[nodiscard]] std::string write(const std::vector<std::string>& traces) const {
    std::string files = "--chakra";
    for (std::size_t rank = 0; rank < traces.size(); ++rank) {
      const std::string name = fmt::format("step.{}.et", rank);
      folder_.write(name, head() + traces[rank]);
      files += " " + folder_.path(name);
    }
    return files;
  }
  TreeFolder folder_;
};

double us_of(const nlohmann::json& step, const char* what) {
  for (const auto& each : step["operations"])
    if (each["operation"] == what) return each["us"];
  return 0;
}

// 100 us before it, and 50 us beside it: the rest of the allreduce is exposed.
TEST_F(Chakra, OneTraceForAllRanks) {
  const nlohmann::json it =
      step(write({node(0, kComputation, 100, {}) + collective(1, kAllReduce, 1 << 20, {0}) +
                  node(2, kComputation, 50, {0}) + node(3, kComputation, 30, {1, 2})}));
  EXPECT_EQ(it["ranks"], 16);
  const double allreduce = us_of(it, "allreduce");
  EXPECT_GT(allreduce, 50);
  EXPECT_NEAR(it["us"].get<double>(), 100 + allreduce + 30, 1e-3);
  EXPECT_NEAR(it["exposed_share"].get<double>() * it["us"].get<double>(), allreduce - 50, 1e-3);
  EXPECT_NEAR(it["communication_share"].get<double>() * it["us"].get<double>(), allreduce, 1e-3);
  const Ran predicted =
      run_weft("predict --cluster " + folder_.tree() + " --operation allreduce --sizes 1M --json");
  EXPECT_NEAR(nlohmann::json::parse(predicted.out.front())["us"].get<double>(), allreduce, 1e-3);
}

// Rank 1 is late by 400 us, so rank 0 waits; a message of 1.25 MB takes 100 us at 100 Gbit/s.
TEST_F(Chakra, LateRanksAndMessages) {
  const nlohmann::json late =
      step(write({collective(1, kBarrier, 0, {}),
                  node(0, kComputation, 400, {}) + collective(1, kBarrier, 0, {0})}));
  EXPECT_GE(late["us"].get<double>(), 400);
  EXPECT_LT(us_of(late, "barrier"), 100);
  EXPECT_GE(late["by_rank"][0]["exposed_us"].get<double>(), 400);
  EXPECT_LT(late["by_rank"][1]["exposed_us"].get<double>(), 100);
  const Attributes size{{"comm_size", 1'250'000}, {"comm_tag", 7}};
  Attributes to = size, from = size;
  to.emplace_back("comm_dst", 1);
  from.emplace_back("comm_src", 0);
  const nlohmann::json message =
      step(write({node(0, kSend, 0, {}, to), node(0, kReceive, 0, {}, from)}));
  EXPECT_NEAR(message["us"].get<double>(), 100, 0.01);
}

TEST_F(Chakra, TheFormInJson) {
  folder_.write("step.json", R"({"workload_graph": [
    {"Id": 7, "Name": "x", "NodeType": 4, "runtime": 10, "data_deps": [], "is_cpu_op": true},
    {"Id": 9, "Name": "y", "NodeType": 7, "data_deps": [7], "comm_type": 2, "comm_size": 4096}]})");
  const nlohmann::json it = step("--chakra " + folder_.path("step.json") + " --ranks 4");
  EXPECT_EQ(it["ranks"], 4);
  EXPECT_NEAR(it["us"].get<double>(), 10 + us_of(it, "allgather"), 1e-3);
}

TEST_F(Chakra, WhatIsWrongIsNamed) {
  const std::string good = head() + collective(1, kAllGather, 4096, {});
  for (std::size_t size = 0; size < good.size(); size += 11) {
    if (size == head().size()) continue;
    EXPECT_NE(complaint(good.substr(0, size)).find("bad.et"), std::string::npos) << size;
  }
  const auto expect = [&](const std::string& nodes, const std::string& words) {
    EXPECT_NE(complaint(head() + nodes).find(words), std::string::npos)
        << complaint(head() + nodes);
  };
  expect(node(5, kComputation, 1, {6}), "node 5 (node 5): it waits for node 6, which is not there");
  expect(node(5, kComputation, 1, {6}) + node(6, kComputation, 1, {5}),
         "dependencies go in a circle");
  expect(node(5, kComputation, 1, {}) + node(5, kComputation, 1, {}), "its id is there twice");
  expect(collective(3, 77, 4, {}), "comm_type 77");
  expect(node(3, 9, 4, {}), "type 9");
  expect(node(3, kSend, 0, {}, {{"comm_size", 4}, {"comm_dst", 1}}),
         "needs the traces of all ranks");
  EXPECT_NE(complaint("\x1f\x8b").find("gunzip"), std::string::npos);
  EXPECT_NE(complaint("{\"a\": 1}").find("no workload_graph"), std::string::npos);
  const auto of_two = [&](const std::string& one, const std::string& other,
                          const std::string& words) {
    const Ran ran = predict(write({one, other}));
    EXPECT_EQ(ran.exit_status, 2);
    EXPECT_TRUE(mentions(ran.errors, words)) << (ran.errors.empty() ? "" : ran.errors.front());
  };
  of_two(collective(1, kBarrier, 0, {}), collective(1, kAllGather, 4, {}),
         "call 0 of its group is allgather of 4 bytes, and barrier of 0 at");
  of_two(collective(1, kBarrier, 0, {}) + collective(2, kBarrier, 0, {}),
         collective(1, kBarrier, 0, {}), "step.1.et never comes to this call");
  of_two(node(0, kReceive, 0, {}, {{"comm_size", 4}, {"comm_src", 1}}),
         collective(1, kBarrier, 0, {}), "rank 1 never sends this message");
  EXPECT_EQ(run_weft("predict --chakra x --sizes 4").exit_status, 2);
}

}  // namespace
}  // namespace weft
