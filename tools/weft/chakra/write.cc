// The binary form, written: each attribute in the field of its type that Chakra's own reader asks for.
#include <protozero/pbf_writer.hpp>

#include "tools/weft/chakra/chakra.h"
#include "tools/weft/chakra/schema.h"

namespace weft {
namespace {

constexpr const char* kVersion = "0.0.4";

constexpr protozero::pbf_tag_type tag(auto field) {
  return static_cast<protozero::pbf_tag_type>(field);
}

class Writer {
 public:
  std::string write(const std::vector<ChakraNode>& nodes) {
    std::string metadata;
    protozero::pbf_writer(metadata).add_string(1, kVersion);
    add(metadata);
    for (const ChakraNode& node : nodes) add(message_of(node));
    return std::move(out_);
  }

 private:
  using Kind = ChakraNode::Kind;

  void add(const std::string& message) {
    protozero::add_varint_to_buffer(&out_, message.size());
    out_ += message;
  }

  static std::string message_of(const ChakraNode& node) {
    std::string message;
    protozero::pbf_writer out(message);
    out.add_uint64(tag(ChakraField::id), node.id);
    out.add_string(tag(ChakraField::name), node.name);
    out.add_enum(tag(ChakraField::type), static_cast<std::int32_t>(type_of(node.kind)));
    out.add_packed_uint64(tag(ChakraField::data_deps), node.after.begin(), node.after.end());
    out.add_uint64(tag(ChakraField::start_micros), node.start_us);
    out.add_uint64(tag(ChakraField::duration_micros), node.us);
    attribute(out, "is_cpu_op").add_bool(tag(ChakraAttribute::boolean), node.is_on_cpu);
    if (node.kind == Kind::computation) return message;
    attribute(out, "comm_size")
        .add_int64(tag(ChakraAttribute::int64), static_cast<std::int64_t>(node.bytes));
    if (node.kind == Kind::collective) {
      attribute(out, "comm_type")
          .add_int64(tag(ChakraAttribute::int64), chakra_comm_type(node.operation).value_or(0));
    } else {
      const bool sends = node.kind == Kind::send;
      const auto number = [&out](const char* name, std::int64_t value) {
        attribute(out, name).add_int32(tag(ChakraAttribute::int32),
                                       static_cast<std::int32_t>(value));
      };
      number("comm_src", sends ? node.rank : node.peer);
      number("comm_dst", sends ? node.peer : node.rank);
      number("comm_tag", static_cast<std::int64_t>(node.tag));
    }
    if (!node.group.empty())
      attribute(out, "pg_name").add_string(tag(ChakraAttribute::string), node.group);
    return message;
  }

  static protozero::pbf_writer attribute(protozero::pbf_writer& out, const char* name) {
    protozero::pbf_writer attribute(out, tag(ChakraField::attributes));
    attribute.add_string(tag(ChakraAttribute::name), name);
    return attribute;
  }

  static ChakraType type_of(Kind kind) {
    switch (kind) {
      case Kind::send:
        return ChakraType::send;
      case Kind::receive:
        return ChakraType::receive;
      case Kind::collective:
        return ChakraType::collective;
      case Kind::computation:
        break;
    }
    return ChakraType::computation;
  }

  std::string out_;
};

}  // namespace

std::optional<std::int64_t> chakra_comm_type(Collective operation) {
  const auto found = std::ranges::find(kChakraCollectives, operation);
  if (found == kChakraCollectives.end()) return std::nullopt;
  return found - kChakraCollectives.begin();
}

std::string chakra_bytes(const std::vector<ChakraNode>& nodes) {
  return Writer().write(nodes);
}

}  // namespace weft
