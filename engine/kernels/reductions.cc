// The vocabulary of kernels: reductions, their names, and which go with which element types.
#include <array>
#include <string>

#include "engine/kernels/kernels.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, kReductions> kReductionNames{
    "weighted_sum", "sum", "min", "max", "product", "bit_and", "bit_or", "bit_xor"};

static_assert(kReductionNames[static_cast<std::size_t>(Reduction::bit_xor)] == "bit_xor");

bool is_bitwise(Reduction reduction) {
  return reduction == Reduction::bit_and || reduction == Reduction::bit_or ||
         reduction == Reduction::bit_xor;
}

}  // namespace

std::string_view name(Reduction reduction) {
  const auto index = static_cast<std::size_t>(reduction);
  invariant(index < kReductions, "a reduction is one of the eight");
  return kReductionNames[index];
}

Status check_reduction(DataType type, Reduction reduction) {
  if (type == DataType::bytes) {
    return Status(Code::invalid_argument,
                  std::string(name(reduction)) +
                      " of bytes has no meaning: they are moved, and not computed with");
  }
  const bool floating = is_floating(type);
  const bool weighted = reduction == Reduction::weighted_sum;
  if (floating ? !is_bitwise(reduction) : !weighted) return {};
  return Status(Code::invalid_argument, std::string(name(reduction)) + " of " +
                                            std::string(name(type)) + " has no meaning: it needs " +
                                            (weighted ? "a floating type" : "an integer type"));
}

}  // namespace weft
