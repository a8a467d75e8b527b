// weft timeline chakra: a job's timelines as Chakra traces, decoded here by the numbers of the schema, and played.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>

#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

using nlohmann::json;

struct Call {
  std::string title;
  std::uint64_t number = 0;
  double begin_us = 0, us = 0;
  std::optional<std::uint64_t> bytes{};
  int peer = -1;
  std::vector<int> receivers{};
  std::string result = "ok";
};

// As a rank writes it.
std::string timeline_of(const std::string& context, int rank, const std::vector<int>& ranks,
                        const std::vector<Call>& calls) {
  json events = json::array();
  for (const Call& call : calls) {
    json span = {{"pid", rank}, {"tid", 1}, {"name", call.title}, {"cat", "operation"}};
    span["id2"] = {{"local", fmt::format("{:#x}", call.number)}};
    json args = {{"operation", call.number}};
    if (call.bytes) args["bytes"] = *call.bytes;
    if (call.peer >= 0) args["peer"] = call.peer;
    if (call.result.empty()) {
      args["unfinished"] = true;
    } else {
      args["result"] = call.result;
    }
    for (const int to : call.receivers)
      events.push_back({{"pid", rank},
                        {"tid", 1},
                        {"ph", "i"},
                        {"name", "send_posted"},
                        {"ts", call.begin_us},
                        {"args", {{"operation", call.number}, {"peer", to}}}});
    json begin = span, end = span;
    begin.update({{"ph", "b"}, {"ts", call.begin_us}, {"args", args}});
    end.update({{"ph", "e"}, {"ts", call.begin_us + call.us}});
    events.push_back(begin);
    events.push_back(end);
  }
  return json{{"traceEvents", events},
              {"otherData",
               {{"format", "weft 1"},
                {"machine", "m"},
                {"day_us", 0},
                {"context", context},
                {"rank", rank},
                {"ranks", ranks}}}}
      .dump();
}

struct Node {
  std::map<std::uint32_t, std::uint64_t> numbers;  // by field
  std::string name;
  std::vector<std::uint64_t> after;
  std::map<std::string, std::pair<std::uint32_t, std::uint64_t>> attributes;  // field, value
  std::string group;

  [[nodiscard]] std::uint64_t attribute(const std::string& name, std::uint32_t field) const {
    const auto found = attributes.find(name);
    EXPECT_TRUE(found != attributes.end()) << name;
    if (found == attributes.end()) return 0;
    EXPECT_EQ(found->second.first, field) << name;  // the one that Chakra's reader asks for
    return found->second.second;
  }
};

constexpr std::uint32_t kInt32 = 7, kInt64 = 9, kBool = 27, kString = 29;

std::vector<Node> decoded(const std::string& bytes) {
  std::vector<Node> nodes;
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  for (bool is_first = true; at < end; is_first = false) {
    const std::uint64_t size = protozero::decode_varint(&at, end);
    protozero::pbf_reader in(at, size);
    at += size;
    Node node;
    while (in.next()) {
      if (is_first) {
        EXPECT_EQ(in.tag(), 1U);
        EXPECT_EQ(in.get_string(), "0.0.4");
      } else if (in.tag() == 2) {
        node.name = in.get_string();
      } else if (in.tag() == 5) {
        for (const std::uint64_t id : in.get_packed_uint64()) node.after.push_back(id);
      } else if (in.tag() == 10) {
        protozero::pbf_reader attribute = in.get_message();
        std::string name;
        while (attribute.next()) {
          if (attribute.tag() == 1)
            name = attribute.get_string();
          else if (attribute.tag() == kString)
            node.group = attribute.get_string();
          else
            node.attributes[name] = {attribute.tag(), attribute.get_uint64()};
        }
      } else {
        node.numbers[in.tag()] = in.get_uint64();
      }
    }
    if (!is_first) nodes.push_back(node);
  }
  return nodes;
}

constexpr std::uint64_t kComputation = 4, kSend = 5, kReceive = 6, kCollective = 7;

class TimelineChakra : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& context, int rank,
             const std::vector<int>& ranks, const std::vector<Call>& calls) {
    folder_.write(name, timeline_of(context, rank, ranks, calls));
    files_ += " " + folder_.path(name);
  }
  [[nodiscard]] Ran convert() const {
    return run_weft("timeline chakra" + files_ + " -o " + folder_.path("step"));
  }
  [[nodiscard]] std::vector<Node> nodes_of(int rank) const {
    return decoded(folder_.content(fmt::format("step.{}.et", rank)));
  }
  // Operations and bytes of all, by name.
  [[nodiscard]] std::map<std::string, std::pair<int, std::uint64_t>> played(int ranks) const {
    std::string line = "predict --json --cluster " + folder_.tree() + " --chakra";
    for (int rank = 0; rank < ranks; ++rank)
      line += " " + folder_.path(fmt::format("step.{}.et", rank));
    const Ran ran = run_weft(line);
    EXPECT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
    std::map<std::string, std::pair<int, std::uint64_t>> all;
    if (ran.out.empty()) return all;
    const json step = json::parse(ran.out[0], nullptr, false);
    for (const json& each : step["operations"]) {
      auto& [count, bytes] = all[each["operation"]];
      count += each["count"].get<int>();
      bytes += each["bytes"].get<std::uint64_t>() * each["count"].get<std::uint64_t>();
    }
    return all;
  }
  void expect_complaint(const std::string& words) const {
    const Ran ran = convert();
    EXPECT_NE(ran.exit_status, 0);
    EXPECT_TRUE(mentions(ran.errors, words)) << (ran.errors.empty() ? "" : ran.errors[0]);
    EXPECT_FALSE(std::filesystem::exists(folder_.path("step.0.et")));
  }

  TreeFolder folder_;
  std::string files_;
};

TEST_F(TimelineChakra, OperationsBytesAndTimesOfTheTimeline) {
  for (const int rank : {0, 1}) {
    const double at = 1000.0 * rank;
    write(fmt::format("t.{}", rank), "job", rank, {0, 1},
          {{"allreduce ring", 7, at + 10, 30, 4096},
           {"broadcast flat", 8, at + 90.25, 5, rank == 0 ? 512 : 0, 0},
           {"barrier one_round", 9, at + 92, 20, 0}});
  }
  const Ran ran = convert();
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  EXPECT_TRUE(mentions(ran.out, "6 calls of 2 ranks")) << ran.out[0];
  const std::vector<Node> nodes = nodes_of(1);
  ASSERT_EQ(nodes.size(), 5U);
  const auto expect = [&](std::size_t i, std::uint64_t type, std::uint64_t start, std::uint64_t us,
                          const std::vector<std::uint64_t>& after) {
    EXPECT_EQ(nodes[i].numbers.at(1), i + 1);
    EXPECT_EQ(nodes[i].numbers.at(3), type) << i;
    EXPECT_EQ(nodes[i].numbers.at(6), start) << i;
    EXPECT_EQ(nodes[i].numbers.at(7), us) << i;
    EXPECT_EQ(nodes[i].after, after) << i;
    EXPECT_EQ(nodes[i].group, "");
    EXPECT_EQ(nodes[i].attribute("is_cpu_op", kBool), type == kComputation ? 1U : 0U);
  };
  expect(0, kCollective, 0, 30, {});
  expect(1, kComputation, 30, 50, {1});
  expect(2, kCollective, 80, 5, {2});
  expect(3, kComputation, 80, 2, {2});  // 1.75 us and the quarter from before; beside the broadcast
  expect(4, kCollective, 82, 20, {4});
  EXPECT_EQ(nodes[0].name, "allreduce ring");
  EXPECT_EQ(nodes[0].attribute("comm_type", kInt64), 0U);
  EXPECT_EQ(nodes[0].attribute("comm_size", kInt64), 4096U);
  EXPECT_EQ(nodes[2].attribute("comm_type", kInt64), 5U);
  EXPECT_EQ(nodes[2].attribute("comm_size", kInt64), 512U);
  EXPECT_EQ(nodes[4].attribute("comm_type", kInt64), 9U);
  using Sums = std::map<std::string, std::pair<int, std::uint64_t>>;
  EXPECT_EQ(played(2),
            (Sums{{"allreduce", {1, 4096}}, {"broadcast", {1, 512}}, {"barrier", {1, 0}}}));
}

// A ring of three, sends of two of them at once, an average of a pair, and a group.
TEST_F(TimelineChakra, NeighborsAndSomeRanks) {
  constexpr std::uint64_t kOwn = 1ULL << 31;
  for (const int rank : {0, 1, 2}) {
    const int next = (rank + 1) % 3;
    std::vector<Call> calls{{"neighbor_allreduce direct", 1, 10, 30, 1000, -1, {next, next}}};
    if (rank == 0) {
      calls.push_back({"send direct", kOwn + 1, 50, 10, 64, 1});
      calls.push_back({"send direct", kOwn + 2, 51, 10, 32, 2});
    } else {
      calls.push_back({"recv direct", kOwn + 1, 50, 10, 64, 0});
      calls.push_back({"pair_average direct", kOwn + 2, 70, 10, 500, 3 - rank});
      calls.push_back({"group_average split", 77, 90, 10, 800, -1, {3 - rank}});
    }
    write(fmt::format("t.{}", rank), "job", rank, {0, 1, 2}, calls);
  }
  ASSERT_EQ(convert().exit_status, 0);
  const std::vector<Node> nodes = nodes_of(0);
  ASSERT_EQ(nodes.size(), 6U);
  EXPECT_EQ(nodes[0].numbers.at(3), kSend);
  EXPECT_EQ(nodes[0].attribute("comm_src", kInt32), 0U);
  EXPECT_EQ(nodes[0].attribute("comm_dst", kInt32), 1U);
  EXPECT_EQ(nodes[1].numbers.at(3), kReceive);
  EXPECT_EQ(nodes[1].attribute("comm_src", kInt32), 2U);
  EXPECT_EQ(nodes[3].after, (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(nodes_of(1).back().group, "job:group 0000004d");
  using Sums = std::map<std::string, std::pair<int, std::uint64_t>>;
  EXPECT_EQ(played(3), (Sums{{"message", {3 + 2 + 2, 3 * 1000 + 64 + 32 + 2 * 500}},
                             {"allreduce", {1, 800}}}));
}

// A context of ranks 2 and 1, in that order, and what was overwritten at one of its ranks.
TEST_F(TimelineChakra, ContextsThatWereSplitOff) {
  for (const int rank : {0, 1, 2})
    write(fmt::format("t.{}", rank), "job", rank, {0, 1, 2}, {{"allreduce ring", 1, 10, 5, 8}});
  write("s.0", "0/split/0/1/", 0, {2, 1},
        {{"allgather ring", 4, 20, 5, 16}, {"send direct", 1ULL << 31, 30, 5, 48, 1}});
  write("s.1", "0/split/0/1/", 1, {2, 1},
        {{"allgather ring", 3, 15, 5, 24},
         {"allgather ring", 4, 20, 5, 24},
         {"recv direct", 1ULL << 31, 30, 5, 48, 0},
         {"allreduce ring", 5, 40, 5, 4, -1, {}, "peer_died"},
         {"hierarchical_neighbor_allreduce hierarchical", 6, 50, 5, 4}});
  const Ran ran = convert();
  ASSERT_EQ(ran.exit_status, 0) << (ran.errors.empty() ? "" : ran.errors[0]);
  EXPECT_TRUE(mentions(ran.errors, "1 calls of allgather: not all ranks have it"));
  EXPECT_TRUE(mentions(ran.errors, "1 calls of allreduce: did not end, or failed"));
  EXPECT_TRUE(
      mentions(ran.errors, "hierarchical_neighbor_allreduce: Chakra has no such operation"));
  const std::vector<Node> nodes = nodes_of(2);
  ASSERT_EQ(nodes.size(), 5U);
  EXPECT_EQ(nodes[2].group, "0/split/0/1/");
  EXPECT_EQ(nodes[2].attribute("comm_size", kInt64), 24U);
  EXPECT_EQ(nodes[4].attribute("comm_dst", kInt32), 1U);
  using Sums = std::map<std::string, std::pair<int, std::uint64_t>>;
  EXPECT_EQ(played(3), (Sums{{"allreduce", {1, 8}}, {"allgather", {1, 24}}, {"message", {1, 48}}}));
}

TEST_F(TimelineChakra, WhatIsMissingIsNamed) {
  const std::vector<Call> calls{{"allreduce ring", 1, 10, 5, 8}};
  write("t.1", "job", 1, {0, 1, 2}, calls);
  expect_complaint("has 3 ranks, and there is no timeline of rank 0, 2");
  write("t.0", "job", 0, {0, 1, 2}, calls);
  write("t.2", "job", 0, {0, 1, 2}, calls);
  expect_complaint("are both of rank 0 of the context \"job\"");
  write("t.2", "job", 2, {2, 1, 0}, calls);
  expect_complaint("are of two jobs");
  files_ = "";
  write("s.0", "split", 0, {2}, calls);
  expect_complaint("of a job of at least 3");
  files_ = "";
  write("t.0", "job", 0, {0}, {{"allreduce ring", 1, 10, 5}});
  expect_complaint("the timeline does not say of how many bytes");
  const std::string good = timeline_of("job", 0, {0}, calls);
  folder_.write("t.0", good.substr(0, good.size() / 2));
  expect_complaint("t.0: is no JSON");
  folder_.write("t.0", good);
  ASSERT_EQ(run_weft("timeline merge -o " + folder_.path("m") + files_).exit_status, 0);
  files_ = " " + folder_.path("m");
  expect_complaint("m: does not say of which context it is: it was merged");
  for (const char* ranks : {"[0,0]", "[1,\"a\"]", "[99999999]", "{}"}) {
    std::string bad = good;
    bad.replace(bad.find("\"ranks\":[0]") + 8, 3, ranks);
    folder_.write("m", bad);
    expect_complaint("m: what it says about its context cannot be understood");
  }
}

TEST_F(TimelineChakra, APlaceThatCannotBeWritten) {
  for (const int rank : {0, 1})
    write(fmt::format("t.{}", rank), "job", rank, {0, 1}, {{"barrier one_round", 1, 10, 5, 0}});
  const Ran missing = run_weft("timeline chakra" + files_ + " -o " + folder_.path("none/step"));
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_TRUE(mentions(missing.errors, "none/step.0.et: No such file or directory"));
  std::filesystem::create_symlink("/dev/full", folder_.path("step.1.et"));
  expect_complaint("step.1.et: No space left on device");
}

}  // namespace
}  // namespace weft
