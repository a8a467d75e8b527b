// binder: operations on blocks of ranks: allgather, gather, scatter, alltoall and reduce_scatter.
#include <fmt/core.h>

#include <algorithm>

#include "engine/context/binder.h"
#include "engine/context/operands.h"

namespace weft {

// Appends one part for each rank, one after another: of `counts` elements, or of `each` elements if
// `counts` is empty.
Status Binder::give_parts(std::string_view what, std::vector<Range>& parts, DataType type,
                          std::span<const std::size_t> counts, std::size_t each) const {
  const auto ranks = static_cast<std::size_t>(config_.size);
  if (!counts.empty() && counts.size() != ranks)
    return invalid(fmt::format("{}: {} counts for {} ranks", what, counts.size(), ranks));
  return lay_out(what, parts, type, ranks, counts, each);
}

namespace {

// Checks that the parts have `whole` elements together, and that this rank's part has `part`
// elements.
Status check_counts(std::string_view what, const std::vector<Range>& parts, Rank rank,
                    std::size_t whole, std::size_t part) {
  const std::size_t own = parts[static_cast<std::size_t>(rank)].count;
  if (own != part) {
    return invalid(
        fmt::format("{}: this rank's count is {}, its part has {} elements", what, own, part));
  }
  if (end_of(parts) == whole) return {};
  return invalid(fmt::format("{}: the ranks' parts have {} elements, together they should have {}",
                             what, end_of(parts), whole));
}

}  // namespace

Status Binder::allgather(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  const std::span<const std::size_t> counts = request.counts;
  WEFT_RETURN_IF_ERROR(give_parts("allgather", bound_call.given, x.type, counts, x.count));
  WEFT_RETURN_IF_ERROR(check_counts("allgather", bound_call.given, config_.rank, y.count, x.count));
  const Range own = bound_call.given[static_cast<std::size_t>(config_.rank)];
  WEFT_ASSIGN(const bool in_place, check_part("allgather", x, y, own));
  bind_operands(bound_call.call, Collective::allgather, x, y);
  bound_call.call.given = bound_call.given;
  PlanKey key;
  key.collective = Collective::allgather;
  key.in_place = in_place;
  key.bytes = y.count * size_of(y.type);
  return plan_everybody(bound_call, key, [&] {
    return plan_allgather(config_.rank, config_.size, key.bytes, Shape{in_place});
  });
}

Status Binder::reduce_scatter(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  const std::span<const std::size_t> counts = request.counts;
  const auto ranks = static_cast<std::uint32_t>(config_.size);
  if (counts.empty()) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      bound_call.given_input.push_back(block_range(x.count, 1, ranks, rank));
    }
  } else {
    WEFT_RETURN_IF_ERROR(give_parts("reduce_scatter", bound_call.given_input, x.type, counts, 0));
  }
  WEFT_RETURN_IF_ERROR(
      check_counts("reduce_scatter", bound_call.given_input, config_.rank, x.count, y.count));
  const Range own = bound_call.given_input[static_cast<std::size_t>(config_.rank)];
  WEFT_ASSIGN(const bool in_place, check_part("reduce_scatter", x, y, own));
  bind_operands(bound_call.call, Collective::reduce_scatter, x, y);
  WEFT_RETURN_IF_ERROR(
      bind_reduction("reduce_scatter", bound_call.call, x.type, request.op, config_.size));
  bound_call.call.given_input = bound_call.given_input;
  PlanKey key;
  key.collective = Collective::reduce_scatter;
  key.bits = bits_of(request, config_.bits);
  key.in_place = in_place;
  key.bytes = x.count * size_of(x.type);
  return plan_everybody(bound_call, key, [&] {
    return plan_reduce_scatter(config_.rank, config_.size, key.bytes, Shape{in_place}, key.bits);
  });
}

Status Binder::gather(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  const Rank root = request.root;
  const std::span<const std::size_t> counts = request.counts;
  WEFT_RETURN_IF_ERROR(check_root("gather", root));
  const Output result = root == config_.rank ? y : Output{nullptr, 0, x.type};
  bool in_place = false;
  if (root == config_.rank) {
    WEFT_RETURN_IF_ERROR(give_parts("gather", bound_call.given, x.type, counts, x.count));
    WEFT_RETURN_IF_ERROR(check_counts("gather", bound_call.given, root, y.count, x.count));
    WEFT_ASSIGN(in_place,
                check_part("gather", x, y, bound_call.given[static_cast<std::size_t>(root)]));
  } else {
    WEFT_RETURN_IF_ERROR(check_memory("gather", x, result));
  }
  bind_operands(bound_call.call, Collective::gather, x, result);
  bound_call.call.given = bound_call.given;
  PlanKey key;
  key.collective = Collective::gather;
  key.in_place = in_place;
  key.root = root;
  return plan_everybody(bound_call, key, [&] {
    return plan_gather(config_.rank, config_.size, root, Shape{in_place});
  });
}

Status Binder::scatter(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  const Rank root = request.root;
  const std::span<const std::size_t> counts = request.counts;
  WEFT_RETURN_IF_ERROR(check_root("scatter", root));
  const Input source = root == config_.rank ? x : Input{nullptr, 0, y.type};
  bool in_place = false;
  if (root == config_.rank) {
    WEFT_RETURN_IF_ERROR(give_parts("scatter", bound_call.given_input, x.type, counts, y.count));
    WEFT_RETURN_IF_ERROR(check_counts("scatter", bound_call.given_input, root, x.count, y.count));
    WEFT_ASSIGN(in_place, check_part("scatter", x, y,
                                     bound_call.given_input[static_cast<std::size_t>(root)]));
  } else {
    WEFT_RETURN_IF_ERROR(check_memory("scatter", source, y));
  }
  bind_operands(bound_call.call, Collective::scatter, source, y);
  bound_call.call.given_input = bound_call.given_input;
  PlanKey key;
  key.collective = Collective::scatter;
  key.in_place = in_place;
  key.root = root;
  return plan_everybody(bound_call, key, [&] {
    return plan_scatter(config_.rank, config_.size, root, Shape{in_place});
  });
}

// Without counts, this is an alltoall with equal blocks; with counts, an alltoallv.
Status Binder::alltoall(const Request& request, BoundCall& bound_call) {
  const Input& x = request.input;
  const Output& y = request.output;
  const std::span<const std::size_t> send_counts = request.counts;
  const std::span<const std::size_t> receive_counts = request.receive_counts;
  WEFT_RETURN_IF_ERROR(check_memory("alltoall", x, y));
  const auto ranks = static_cast<std::size_t>(config_.size);
  if (send_counts.empty() != receive_counts.empty()) {
    return invalid("alltoall: counts are given for one direction only");
  }
  if (send_counts.empty() && (x.count % ranks != 0 || x.count != y.count)) {
    return invalid(
        fmt::format("alltoall: {} elements in and {} out are not equal blocks for {} ranks",
                    x.count, y.count, ranks));
  }
  const std::size_t each = x.count / ranks;
  WEFT_RETURN_IF_ERROR(give_parts("alltoall", bound_call.given_input, x.type, send_counts, each));
  WEFT_RETURN_IF_ERROR(give_parts("alltoall", bound_call.given, x.type, receive_counts, each));
  const bool in_place = is_in_place(x, y);
  if (end_of(bound_call.given_input) != x.count || end_of(bound_call.given) != y.count) {
    return invalid(fmt::format("alltoall: counts of {} and {} elements for {} in and {} out",
                               end_of(bound_call.given_input), end_of(bound_call.given), x.count,
                               y.count));
  }
  if (in_place && !std::ranges::equal(send_counts, receive_counts)) {
    return invalid("alltoall: in place, as much comes from each rank as goes to it");
  }
  const auto own = static_cast<std::size_t>(config_.rank);
  if (bound_call.given_input[own].count != bound_call.given[own].count) {
    return invalid(fmt::format("alltoall: rank {} sends itself {} elements and expects {}", own,
                               bound_call.given_input[own].count, bound_call.given[own].count));
  }
  bind_operands(bound_call.call, Collective::alltoall, x, y);
  bound_call.call.given_input = bound_call.given_input;
  bound_call.call.given = bound_call.given;
  PlanKey key;
  key.collective = Collective::alltoall;
  key.in_place = in_place;
  return plan_everybody(bound_call, key,
                        [&] { return plan_alltoall(config_.rank, config_.size, Shape{in_place}); });
}

}  // namespace weft
