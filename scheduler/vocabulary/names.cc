// The names of operations, operators and algorithms, as messages, plans and bindings have them.
#include <fmt/core.h>

#include <array>
#include <string>

#include "scheduler/vocabulary/vocabulary.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, kCompressions> kCompressionNames{
    "none", "f16", "bf16", "sketch", "e4m3", "e5m2", "low_rank"};
static_assert(kCompressionNames[static_cast<std::size_t>(Compression::low_rank)] == "low_rank");

}  // namespace

std::string_view name(Collective collective) {
  const auto index = static_cast<std::size_t>(collective) - 1;
  return index < kCollectives ? kCollectiveFacts[index].name : "unknown operation";
}

std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::product:
      return "product";
    case ReduceOp::bit_and:
      return "bit_and";
    case ReduceOp::bit_or:
      return "bit_or";
    case ReduceOp::bit_xor:
      return "bit_xor";
  }
  return "unknown operator";
}

std::string_view name(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::automatic:
      return "automatic";
    case AllreduceAlgorithm::direct:
      return "direct";
    case AllreduceAlgorithm::split:
      return "split";
    case AllreduceAlgorithm::ring:
      return "ring";
    case AllreduceAlgorithm::halving_doubling:
      return "halving_doubling";
    case AllreduceAlgorithm::bcube:
      return "bcube";
    case AllreduceAlgorithm::torus:
      return "torus";
    case AllreduceAlgorithm::multi_ring:
      return "multi_ring";
    case AllreduceAlgorithm::hierarchical:
      return "hierarchical";
    case AllreduceAlgorithm::nccl:
      return "nccl";
  }
  return "unknown";
}

std::string_view name(Bits bits) {
  return bits == Bits::fixed ? "fixed" : "automatic";
}

Result<Bits> bits(std::string_view text) {
  if (text == "auto" || text == name(Bits::automatic)) return Bits::automatic;
  if (text == name(Bits::fixed)) return Bits::fixed;
  return Status(Code::invalid_argument,
                fmt::format("there are no bits '{}'; there are auto and fixed", text));
}

std::string_view name(Compression compression) {
  const auto index = static_cast<std::size_t>(compression);
  return index < kCompressions ? kCompressionNames[index] : "?";
}

Result<Compression> compression(std::string_view text) {
  std::string known;
  for (std::size_t i = 0; i < kCompressions; ++i) {
    if (kCompressionNames[i] == text) return static_cast<Compression>(i);
    known.append(i == 0 ? "" : ", ").append(kCompressionNames[i]);
  }
  return Status(Code::invalid_argument,
                fmt::format("there is no compression '{}'; there are {}", text, known));
}

std::string_view name(ExchangeRule rule) {
  switch (rule) {
    case ExchangeRule::bulk:
      return "bulk";
    case ExchangeRule::bounded:
      return "bounded";
    case ExchangeRule::asynchronous:
      return "asynchronous";
    case ExchangeRule::canary:
      return "canary";
  }
  return "?";
}

Result<ExchangeRule> exchange_rule(std::string_view text) {
  for (const ExchangeRule each : {ExchangeRule::bulk, ExchangeRule::bounded,
                                  ExchangeRule::asynchronous, ExchangeRule::canary}) {
    if (text == name(each)) return each;
  }
  return Status(Code::invalid_argument,
                fmt::format("there is no exchange rule '{}'; there are bulk, bounded, "
                            "asynchronous, canary",
                            text));
}

}  // namespace weft
