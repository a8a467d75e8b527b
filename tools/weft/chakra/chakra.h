// chakra: execution traces of MLCommons Chakra, as its schema 0.0.4 has them (github.com/mlcommons/chakra,
// schema/protobuf/et_def.proto): a file for each rank, with the nodes of a step, their dependencies, and the collectives
// and messages among them. Also its JSON form ("workload_graph").
#pragma once

#include <weft/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct ChakraNode {
  enum class Kind : std::uint8_t { computation, send, receive, collective };

  std::uint64_t id = 0;
  std::string name;
  Kind kind = Kind::computation;  // also of metadata, which takes no time
  bool is_on_cpu = false;
  std::uint64_t start_us = 0;
  std::uint64_t us = 0;  // that it took where it was recorded
  Collective operation = Collective::allreduce;
  std::uint64_t bytes = 0;             // of a message; of a collective: of one rank's input
  Rank peer = kNoRank;                 // of a message
  std::uint64_t tag = 0;               // of a message
  Rank rank = kNoRank;                 // the other end of a message: this rank; only written
  std::string group{};                 // pg_name; empty: all ranks
  std::vector<std::uint64_t> after{};  // data_deps: ids of nodes that end before this one begins
};

struct ChakraTrace {
  std::string path;
  std::vector<ChakraNode> nodes;
};

// An error names the file and the node. What is cut short is an error.
[[nodiscard]] Result<ChakraTrace> read_chakra(const std::string& path);

// The binary form. Its operations are those that have a comm_type.
[[nodiscard]] std::string chakra_bytes(const std::vector<ChakraNode>& nodes);
[[nodiscard]] std::optional<std::int64_t> chakra_comm_type(Collective operation);

// The form in JSON, of bytes that read_chakra() has read.
[[nodiscard]] Result<std::vector<ChakraNode>> chakra_nodes_of_json(const std::string& text);

// What fields of both forms mean. An error says what is wrong with the node.
struct ChakraFields {
  std::uint64_t type = 0;  // NodeType
  std::optional<std::int64_t> comm_type{}, comm_size{}, comm_src{}, comm_dst{}, comm_tag{};
};
[[nodiscard]] Status finish(ChakraNode& node, const ChakraFields& fields);

}  // namespace weft
