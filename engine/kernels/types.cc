// The vocabulary of kernels: element types and reductions, their names, and which of them go
// together.
#include <array>
#include <string>

#include "engine/kernels/kernels.h"

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
}};

constexpr std::array<std::string_view, kReductions> kReductionNames{
    "weighted_sum", "sum", "min", "max", "product", "bit_and", "bit_or", "bit_xor"};

static_assert(kTypes[static_cast<std::size_t>(DataType::u64)].name == "u64");
static_assert(kReductionNames[static_cast<std::size_t>(Reduction::bit_xor)] == "bit_xor");

const TypeFacts& facts(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  invariant(index < kDataTypes, "a data type is one of the ten");
  return kTypes[index];
}

bool is_bitwise(Reduction reduction) {
  return reduction == Reduction::bit_and || reduction == Reduction::bit_or ||
         reduction == Reduction::bit_xor;
}

}  // namespace

std::size_t size_of(DataType type) {
  return facts(type).size;
}
std::string_view name(DataType type) {
  return facts(type).name;
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

std::string_view name(Reduction reduction) {
  const auto index = static_cast<std::size_t>(reduction);
  invariant(index < kReductions, "a reduction is one of the eight");
  return kReductionNames[index];
}

Status check_reduction(DataType type, Reduction reduction) {
  const bool floating = is_floating(type);
  const bool weighted = reduction == Reduction::weighted_sum;
  if (floating ? !is_bitwise(reduction) : !weighted) return {};
  return Status(Code::invalid_argument, std::string(name(reduction)) + " of " +
                                            std::string(name(type)) + " has no meaning: it needs " +
                                            (weighted ? "a floating type" : "an integer type"));
}

}  // namespace weft
