// request: what the engine asks of a Request (weft/types.h): which operations have a root, what the
// ranks of an operation must have in common, whether a size can be one of memory, and weights.
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/request/owned_request.h"
#include "scheduler/vocabulary/vocabulary.h"
#include "verbs/base/base.h"

namespace weft {

[[nodiscard]] constexpr bool is_of_some_ranks(Collective collective) {
  return has<kOfSomeRanks>(collective);
}

// Whether one rank has a part of its own in the operation, which Request::root names.
[[nodiscard]] constexpr bool has_root(Collective collective) {
  return has<kHasRoot>(collective);
}
// What the ranks of an operation must have in common beyond its kind, type and sizes: the operator, the
// root, the algorithm, the compression, whether the call needs all ranks, and whether sums have fixed bits. It
// travels in every header, and is frozen: the operator + 1 (0: none) in bits 0 to 3; then the root + 1, modulo
// 1024, in bits 4 to 13, or the algorithm + 1 in bits 4 to 9 and the compression in bits 10 to 13; needs_all in
// bit 14; fixed bits in bit 15.
[[nodiscard]] std::uint16_t agreement_of(const Request& request, Bits bits);
// What Bits::automatic of a request stands for: what its context has.
[[nodiscard]] constexpr Bits bits_of(const Request& request, Bits usual) {
  return request.bits == Bits::automatic ? usual : request.bits;
}
// Whether the operation moves encoded tensors, or should.
[[nodiscard]] inline bool is_compressed(const Request& request) {
  return request.compression != Compression::none || request.feedback != nullptr;
}
// A sentence on how two ranks differ: "rank 3 reduces with max, this rank with sum".
[[nodiscard]] std::string disagreement(Collective collective, std::uint16_t ours, Rank peer,
                                       std::uint16_t theirs);

[[nodiscard]] constexpr bool is_known(DataType type) {
  return static_cast<std::size_t>(type) < kDataTypes;
}
// A program can put any number in place of a name, by a cast or from another language. Says which of the request's types,
// operator, algorithm, bits and compression has none.
[[nodiscard]] Status why_unknown(const Request& request);
[[nodiscard]] inline Status check_known(const Request& request) {
  const bool is_right = is_known(request.input.type) && is_known(request.output.type) &&
                        request.op <= ReduceOp::bit_xor &&
                        request.algorithm <= AllreduceAlgorithm::nccl &&
                        request.bits <= Bits::fixed && request.compression <= Compression::low_rank;
  return is_right ? Status() : why_unknown(request);
}

// Whether a count of elements makes a size in bytes that memory can have: at most half of the
// address space, so that sums of two sizes do not overflow either.
[[nodiscard]] bool is_count_of_memory(std::size_t count, DataType type);

// The weight must be finite.
Status check_weight(std::string_view what, double weight, Rank rank);
// In a step of push-sum, the self weight and the send-side weights of each sender must sum to 1, so
// that the sum over all senders stays the same. `who` and `number` name the sender: "rank" or
// "machine".
Status check_push_sum(std::string_view what, const NeighborWeights& weights, std::string_view who,
                      Rank number);

}  // namespace weft
