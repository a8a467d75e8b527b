// request: see the header.
#include "bindings/c/request.h"

#include <weft/c/operations.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"
#include "bindings/c/structs.h"
#include "scheduler/vocabulary/vocabulary.h"

namespace weft::c {

Status check_number(const char* member, std::int32_t value, std::int32_t most, const char* what) {
  if (value >= 0 && value <= most) return {};
  return argument_error(member, "is " + std::to_string(value) + ", which is no " + what);
}

Status check_type(weft_data_type type) {
  return check_number("type", type, static_cast<std::int32_t>(kDataTypes) - 1, "data type");
}

Status check_compression(const char* member, weft_compression value) {
  return check_number(member, value, WEFT_COMPRESSION_LOW_RANK, "compression");
}

Status check_flag(const char* member, std::int32_t value) {
  return check_number(member, value, 1, "answer (0 or 1)");
}

Status convert_peers(const weft_peer* from, std::size_t count, const char* argument,
                     std::vector<NeighborWeight>& kept,
                     std::optional<std::span<const NeighborWeight>>& to) {
  WEFT_RETURN_IF_ERROR(check_array(from, count, argument));
  if (from == nullptr) return {};  // absent
  kept.reserve(count);
  for (const weft_peer& peer : std::span(from, count)) kept.push_back({peer.rank, peer.weight});
  to = kept;
  return {};
}

namespace {

Status convert_weights(const weft_weights* given, Converted& to) {
  weft_weights from{};
  WEFT_RETURN_IF_ERROR(read_struct(given, "weights", from));
  WEFT_RETURN_IF_ERROR(check_flag("weights->has_self_weight", from.has_self_weight));
  WEFT_RETURN_IF_ERROR(check_flag("weights->is_push_sum", from.is_push_sum));
  if (from.has_self_weight == 0 && from.self_weight != 0)
    return argument_error("weights->self_weight", "is set, but has_self_weight is 0");
  if (from.has_self_weight != 0) to.weights.self = from.self_weight;
  to.weights.push_sum = from.is_push_sum != 0;
  WEFT_RETURN_IF_ERROR(convert_peers(from.sources, from.source_count, "weights->sources",
                                     to.sources, to.weights.sources));
  WEFT_RETURN_IF_ERROR(convert_peers(from.destinations, from.destination_count,
                                     "weights->destinations", to.destinations,
                                     to.weights.destinations));
  to.request.weights = &to.weights;
  return {};
}

Status convert_pair_weights(const weft_request& from, Request& to) {
  WEFT_RETURN_IF_ERROR(check_flag("has_pair_weights", from.has_pair_weights));
  if (from.has_pair_weights != 0) {
    to.self_weight = from.self_weight;
    to.pair_weight = from.pair_weight;
  } else if (from.self_weight != 0 || from.pair_weight != 0) {
    return argument_error("self_weight or pair_weight", "is set, but has_pair_weights is 0");
  }
  return {};
}

}  // namespace

Status convert(const weft_request& from, Converted& converted) {
  Request& to = converted.request;
  if (from.operation < 1 || from.operation > static_cast<weft_operation>(kCollectives)) {
    return argument_error("operation",
                          "is " + std::to_string(from.operation) + ", which is no operation");
  }
  std::uint32_t facts = kCollectiveFacts[static_cast<std::size_t>(from.operation) - 1].facts;
  if (from.operation == WEFT_SEND) facts &= ~(from.receives != 0 ? kReadsInput : kWritesOutput);
  const auto has = [&](Fact fact) { return (facts & fact) != 0; };
  to.collective = static_cast<Collective>(from.operation);
  if (has(kInOut)) {
    WEFT_RETURN_IF_ERROR(check_type(from.type));
    const auto type = static_cast<DataType>(from.type);
    to.input.type = to.output.type = type;
  }
  if (has(kReadsInput)) to.input = {from.x, from.x_count, to.input.type};
  if (has(kWritesOutput)) to.output = {from.y, from.y_count, to.output.type};
  if (has(kHasOperator)) {
    WEFT_RETURN_IF_ERROR(check_number("op", from.op, WEFT_BIT_XOR, "operator"));
    to.op = static_cast<ReduceOp>(from.op);
  }
  if (has(kHasAlgorithm)) {
    WEFT_RETURN_IF_ERROR(check_number("algorithm", from.algorithm, WEFT_NCCL, "algorithm"));
    to.algorithm = static_cast<AllreduceAlgorithm>(from.algorithm);
  }
  if (has(kSums)) {
    WEFT_RETURN_IF_ERROR(check_number("bits", from.bits, WEFT_BITS_FIXED, "kind of bits"));
    to.bits = static_cast<Bits>(from.bits);
  }
  if (!has(kOfSomeRanks)) {
    WEFT_RETURN_IF_ERROR(check_flag("needs_all", from.needs_all));
    to.needs_all = from.needs_all != 0;
  }
  WEFT_RETURN_IF_ERROR(check_compression("compression", from.compression));
  to.compression = static_cast<Compression>(from.compression);
  if (from.low_rank < 0) return argument_error("low_rank", "is below 0");
  if (from.low_rank != 0) to.low_rank.rank = static_cast<std::uint32_t>(from.low_rank);
  if (from.feedback != nullptr) {
    WEFT_ASSIGN(const auto feedback, object_of(from.feedback, "feedback"));
    to.feedback = &converted.feedback.emplace(*feedback);
  }
  to.stream = stream_of(from.stream);
  WEFT_RETURN_IF_ERROR(check_array(from.shape, from.dimensions, "shape"));
  to.shape = {from.shape, from.dimensions};
  if (has(kHasRoot)) to.root = from.root;
  if (has(kHasPeer)) to.peer = from.peer;
  if (from.operation == WEFT_SEND) {
    WEFT_RETURN_IF_ERROR(check_flag("receives", from.receives));
    to.receives = from.receives != 0;
  }
  if (has(kHasPairWeights)) WEFT_RETURN_IF_ERROR(convert_pair_weights(from, to));
  if (has(kHasCounts)) {
    WEFT_RETURN_IF_ERROR(check_array(from.counts, from.counts_length, "counts"));
    to.counts = {from.counts, from.counts_length};
  }
  if (has(kHasReceiveCounts)) {
    WEFT_RETURN_IF_ERROR(
        check_array(from.receive_counts, from.receive_counts_length, "receive_counts"));
    to.receive_counts = {from.receive_counts, from.receive_counts_length};
  }
  if (has(kHasGroup)) {
    WEFT_RETURN_IF_ERROR(check_array(from.group, from.group_length, "group"));
    to.group = {from.group, from.group_length};
  }
  if (has(kHasWeights) && from.weights != nullptr) return convert_weights(from.weights, converted);
  return {};
}

}  // namespace weft::c
