// request: what ranks must have in common, the bound on counts, and weights.
#include "engine/request/request.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

constexpr unsigned kOperatorBits = 4;
constexpr std::uint16_t kOperatorMask = (1U << kOperatorBits) - 1;
constexpr std::uint16_t kNeedsAll = 1U << 14;
constexpr std::uint16_t kFixedBits = 1U << 15;
constexpr unsigned kChoices = 1U << (14 - kOperatorBits);
// Where there is no root, a choice is an algorithm, and above that a compression.
constexpr unsigned kAlgorithmBits = 6;

std::string operator_text(std::uint16_t agreement) {
  const unsigned number = agreement & kOperatorMask;
  const bool is_known = number > 0 && number <= static_cast<unsigned>(ReduceOp::bit_xor) + 1;
  return is_known ? std::string(name(static_cast<ReduceOp>(number - 1))) : "no operator";
}

Bits bits_in(std::uint16_t agreement) {
  return (agreement & kFixedBits) != 0 ? Bits::fixed : Bits::automatic;
}

}  // namespace

std::uint16_t agreement_of(const Request& request, Bits bits) {
  unsigned op = 0;
  unsigned choice = 0;
  if (has<kHasOperator>(request.collective)) op = static_cast<unsigned>(request.op) + 1;
  if (has_root(request.collective)) choice = static_cast<unsigned>(request.root) + 1;
  if (has<kHasAlgorithm>(request.collective)) choice = static_cast<unsigned>(request.algorithm) + 1;
  if (!has_root(request.collective))
    choice |= static_cast<unsigned>(request.compression) << kAlgorithmBits;
  const bool is_fixed = has<kSums>(request.collective) && bits_of(request, bits) == Bits::fixed;
  const bool needs_all = !is_of_some_ranks(request.collective) && request.needs_all;
  return static_cast<std::uint16_t>(choice % kChoices << kOperatorBits | op |
                                    (needs_all ? kNeedsAll : 0U) | (is_fixed ? kFixedBits : 0U));
}

std::string disagreement(Collective collective, std::uint16_t ours, Rank peer,
                         std::uint16_t theirs) {
  if ((ours & kOperatorMask) != (theirs & kOperatorMask)) {
    return fmt::format("rank {} reduces with {}, this rank with {}", peer, operator_text(theirs),
                       operator_text(ours));
  }
  if (((ours ^ theirs) & kFixedBits) != 0) {
    return fmt::format(
        "rank {} sums with bits {}, this rank with bits {} (WEFT_BITS, or bits of the call)", peer,
        name(bits_in(theirs)), name(bits_in(ours)));
  }
  if (((ours ^ theirs) & kNeedsAll) != 0) {
    const bool is_ours = (ours & kNeedsAll) != 0;
    return is_ours ? fmt::format("this rank's call needs all ranks (needs_all), rank {}'s does not",
                                 peer)
                   : fmt::format("rank {}'s call needs all ranks (needs_all), this rank's does not",
                                 peer);
  }
  const auto choice_in = [](std::uint16_t agreement) {
    return static_cast<unsigned>(agreement >> kOperatorBits) % kChoices;
  };
  if (has_root(collective)) {
    return fmt::format("rank {} names rank {} as the root, this rank names rank {}", peer,
                       static_cast<int>(choice_in(theirs)) - 1,
                       static_cast<int>(choice_in(ours)) - 1);
  }
  const auto compression_in = [choice_in](std::uint16_t agreement) {
    return static_cast<Compression>(choice_in(agreement) >> kAlgorithmBits);
  };
  if (compression_in(ours) != compression_in(theirs)) {
    return fmt::format("rank {} compresses as {}, this rank as {}", peer,
                       name(compression_in(theirs)), name(compression_in(ours)));
  }
  return fmt::format("rank {} asks for another algorithm than this rank", peer);
}

Status why_unknown(const Request& request) {
  const auto unknown = [&](std::string_view kind, auto value) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: no {} has the number {}", name(request.collective), kind,
                              static_cast<unsigned>(value)));
  };
  if (!is_known(request.input.type)) return unknown("type", request.input.type);
  if (!is_known(request.output.type)) return unknown("type", request.output.type);
  if (request.op > ReduceOp::bit_xor) return unknown("operator", request.op);
  if (request.algorithm > AllreduceAlgorithm::nccl) return unknown("algorithm", request.algorithm);
  if (request.bits > Bits::fixed) return unknown("choice of bits", request.bits);
  return unknown("compression", request.compression);
}

bool is_count_of_memory(std::size_t count, DataType type) {
  return is_known(type) && count <= std::numeric_limits<std::size_t>::max() / 2 / size_of(type);
}

Status check_weight(std::string_view what, double weight, Rank rank) {
  if (std::isfinite(weight)) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: the weight for rank {} is {}", what, rank, weight));
}

Status check_push_sum(std::string_view what, const NeighborWeights& weights, std::string_view who,
                      Rank number) {
  constexpr double kTolerance = 1e-6;
  if (!weights.destinations)
    return Status(Code::invalid_argument,
                  fmt::format("{}: a push-sum step needs dst_weights", what));
  double sum = weights.self.value_or(0.0);
  for (const NeighborWeight& target : *weights.destinations) sum += target.weight;
  if (std::abs(sum - 1.0) <= kTolerance) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("{}: self_weight and dst_weights of {} {} sum to {}; in a push-sum step they "
                  "must sum to 1",
                  what, who, number, sum));
}

}  // namespace weft
