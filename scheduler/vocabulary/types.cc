// The facts of the element types: names and sizes.
#include <array>
#include <string>

#include "scheduler/vocabulary/vocabulary.h"

namespace weft {
namespace {

struct TypeFacts {
  std::string_view name;
  std::size_t size;
  bool floating;
};

constexpr std::array<TypeFacts, kDataTypes> kTypes{{
    {"f16", 2, true},
    {"bf16", 2, true},
    {"f32", 4, true},
    {"f64", 8, true},
    {"i8", 1, false},
    {"u8", 1, false},
    {"i32", 4, false},
    {"u32", 4, false},
    {"i64", 8, false},
    {"u64", 8, false},
    {"i16", 2, false},
    {"u16", 2, false},
    {"bytes", 1, false},
    {"e4m3", 1, true},
    {"e5m2", 1, true},
}};

static_assert(kTypes[static_cast<std::size_t>(DataType::e5m2)].name == "e5m2");

const TypeFacts& facts(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  invariant(index < kDataTypes, "a data type is one of the fifteen");
  return kTypes[index];
}

}  // namespace

std::size_t size_of(DataType type) {
  return facts(type).size;
}
// Of any number, because errors name what a peer has sent.
std::string_view name(DataType type) {
  return static_cast<std::size_t>(type) < kDataTypes ? facts(type).name : "an unknown type";
}
bool is_floating(DataType type) {
  return facts(type).floating;
}

Result<DataType> data_type(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kDataTypes; ++i) {
    if (kTypes[i].name == name) return static_cast<DataType>(i);
    known.append(i == 0 ? "" : ", ").append(kTypes[i].name);
  }
  return Status(Code::invalid_argument,
                "no data type is named '" + std::string(name) + "'; there are " + known);
}

}  // namespace weft
