// The binary form: a GlobalMetadata, then the nodes, each behind its length as a varint.
#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <protozero/pbf_reader.hpp>

#include "tools/weft/chakra/chakra.h"
#include "tools/weft/chakra/schema.h"

namespace weft {
namespace {

constexpr std::uintmax_t kMostFile = std::uintmax_t{1} << 30;
constexpr std::size_t kMostNodes = 4'000'000;

Status invalid(std::string why) {
  return Status(Code::invalid_argument, std::move(why));
}

Result<Collective> collective_of(std::int64_t comm_type) {
  if (comm_type < 0 || comm_type >= std::ssize(kChakraCollectives))
    return invalid(fmt::format("comm_type {}: the schema has 0 to {}", comm_type,
                               kChakraCollectives.size() - 1));
  return kChakraCollectives[static_cast<std::size_t>(comm_type)];
}

struct Value {
  std::optional<std::int64_t> number;
  std::string text;
};

// Its type on the wire says how many bytes a value has; a value of another type than the schema's is skipped.
Value value_of(protozero::pbf_reader& in) {
  using Type = protozero::pbf_wire_type;
  Value value;
  const auto tag = static_cast<ChakraAttribute>(in.tag());
  const Type type = in.wire_type();
  const bool is_zigzag = tag == ChakraAttribute::sint32 || tag == ChakraAttribute::sint64;
  const bool is_string = tag == ChakraAttribute::string && type == Type::length_delimited;
  if (type == Type::varint)
    value.number = is_zigzag ? in.get_sint64() : in.get_int64();
  else if (type == Type::fixed32 &&
           (tag == ChakraAttribute::fixed32 || tag == ChakraAttribute::sfixed32))
    value.number = in.get_sfixed32();
  else if (type == Type::fixed64 &&
           (tag == ChakraAttribute::fixed64 || tag == ChakraAttribute::sfixed64))
    value.number = in.get_sfixed64();
  else if (is_string)
    value.text = in.get_string();
  else
    in.skip();
  return value;
}

void take_attribute(protozero::pbf_reader in, ChakraNode& node, ChakraFields& fields) {
  std::string name;
  Value value;
  while (in.next()) {
    if (in.tag_and_type() ==
        protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(ChakraAttribute::name),
                                protozero::pbf_wire_type::length_delimited))
      name = in.get_string();
    else
      value = value_of(in);
  }
  if (name == "comm_type") fields.comm_type = value.number;
  if (name == "comm_size") fields.comm_size = value.number;
  if (name == "comm_src") fields.comm_src = value.number;
  if (name == "comm_dst") fields.comm_dst = value.number;
  if (name == "comm_tag") fields.comm_tag = value.number;
  if (name == "is_cpu_op") node.is_on_cpu = value.number.value_or(0) != 0;
  if (name == "pg_name") node.group = value.text;
}

Result<ChakraNode> node_of(protozero::pbf_reader in) {
  using Type = protozero::pbf_wire_type;
  ChakraNode node;
  ChakraFields fields;
  while (in.next()) {
    const auto field = static_cast<ChakraField>(in.tag());
    const Type type = in.wire_type();
    if (field == ChakraField::id && type == Type::varint) {
      node.id = in.get_uint64();
    } else if (field == ChakraField::name && type == Type::length_delimited) {
      node.name = in.get_string();
    } else if (field == ChakraField::type && type == Type::varint) {
      fields.type = in.get_uint64();
    } else if (field == ChakraField::data_deps && type == Type::varint) {
      node.after.push_back(in.get_uint64());
    } else if (field == ChakraField::data_deps && type == Type::length_delimited) {
      for (const std::uint64_t id : in.get_packed_uint64()) node.after.push_back(id);
    } else if (field == ChakraField::start_micros && type == Type::varint) {
      node.start_us = in.get_uint64();
    } else if (field == ChakraField::duration_micros && type == Type::varint) {
      node.us = in.get_uint64();
    } else if (field == ChakraField::attributes && type == Type::length_delimited) {
      take_attribute(in.get_message(), node, fields);
    } else {
      in.skip();
    }
  }
  WEFT_RETURN_IF_ERROR(finish(node, fields));
  return node;
}

Result<std::vector<ChakraNode>> nodes_of(const std::string& bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  std::vector<ChakraNode> nodes;
  for (bool is_first = true; at != end; is_first = false) {
    try {
      const std::uint64_t size = protozero::decode_varint(&at, end);
      if (size > static_cast<std::uint64_t>(end - at))
        return invalid("is cut short, or is no Chakra trace");
      const protozero::pbf_reader message(at, static_cast<std::size_t>(size));
      at += size;
      if (is_first) {
        for (protozero::pbf_reader metadata = message; metadata.next();) metadata.skip();
        continue;
      }
      if (nodes.size() == kMostNodes)
        return invalid(fmt::format("has more than {} nodes", kMostNodes));
      Result<ChakraNode> node = node_of(message);
      if (!node.ok())
        return invalid(fmt::format("message {}: {}", nodes.size() + 1, node.status().text()));
      nodes.push_back(*std::move(node));
    } catch (const protozero::exception& error) {
      return invalid(fmt::format("message {} cannot be read: {}", nodes.size() + 1, error.what()));
    }
  }
  return nodes;
}

Result<std::string> bytes_of_file(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return system_error(path, errno);
  if (!S_ISREG(found.st_mode)) return invalid("is no file");
  if (static_cast<std::uintmax_t>(found.st_size) > kMostFile) return invalid("has more than 1 GiB");
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.good() && !file.eof()) return invalid("cannot be read");
  return bytes;
}

// A binary trace may begin with the same byte, and even with a newline behind it, but not with a quotation mark then.
bool is_json(const std::string& bytes) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t brace = bytes.find_first_not_of(kBlanks);
  if (brace == std::string::npos || bytes[brace] != '{') return false;
  const std::size_t next = bytes.find_first_not_of(kBlanks, brace + 1);
  return next == std::string::npos || bytes[next] == '"' || bytes[next] == '}';
}

Result<std::vector<ChakraNode>> read_nodes(const std::string& path) {
  WEFT_ASSIGN(const std::string bytes, bytes_of_file(path));
  if (bytes.starts_with("\x1f\x8b")) return invalid("is compressed; gunzip it before");
  if (is_json(bytes)) return chakra_nodes_of_json(bytes);
  return nodes_of(bytes);
}

}  // namespace

Status finish(ChakraNode& node, const ChakraFields& fields) {
  const auto wrong = [&](const std::string& why) {
    return invalid(fmt::format("node {} ({:.60}): {}", node.id, node.name, why));
  };
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  constexpr std::int64_t kMostRank = 1 << 20;
  constexpr std::uint64_t kMostUs = std::uint64_t{1} << 40;
  constexpr auto kMostType = static_cast<std::uint64_t>(ChakraType::collective);
  if (fields.type == 0 || fields.type > kMostType)
    return wrong(fmt::format("type {}: the schema has 1 to {}", fields.type, kMostType));
  const auto type = static_cast<ChakraType>(fields.type);
  if (node.us > kMostUs) return wrong(fmt::format("it takes {} us", node.us));
  if (type == ChakraType::metadata) node.us = 0;
  // What a program does to start an operation has its type too, but says neither which nor how large.
  if (type < ChakraType::send || (type == ChakraType::collective && !fields.comm_type)) return {};
  node.kind = type == ChakraType::send      ? ChakraNode::Kind::send
              : type == ChakraType::receive ? ChakraNode::Kind::receive
                                            : ChakraNode::Kind::collective;
  if (node.kind == ChakraNode::Kind::collective) {
    const Result<Collective> operation = collective_of(*fields.comm_type);
    if (!operation.ok()) return wrong(std::string(operation.status().text()));
    node.operation = *operation;
  } else {
    const auto& peer = node.kind == ChakraNode::Kind::send ? fields.comm_dst : fields.comm_src;
    if (!peer || *peer < 0 || *peer >= kMostRank) return wrong("a message without a peer");
    node.peer = static_cast<Rank>(*peer);
    node.tag = static_cast<std::uint64_t>(fields.comm_tag.value_or(0));
  }
  const std::int64_t bytes = fields.comm_size.value_or(0);
  if (bytes < 0 || bytes > kMostBytes) return wrong(fmt::format("comm_size {}", bytes));
  if (!fields.comm_size && node.operation != Collective::barrier) return wrong("no comm_size");
  node.bytes = static_cast<std::uint64_t>(bytes);
  return {};
}

Result<ChakraTrace> read_chakra(const std::string& path) {
  Result<std::vector<ChakraNode>> nodes = read_nodes(path);
  if (!nodes.ok()) {
    const std::string_view why = nodes.status().text();
    return invalid(why.starts_with(path) ? std::string(why) : fmt::format("{}: {}", path, why));
  }
  if (nodes->empty())
    return invalid(fmt::format("{}: has no nodes; a Chakra trace has some", path));
  return ChakraTrace{path, *std::move(nodes)};
}

}  // namespace weft
