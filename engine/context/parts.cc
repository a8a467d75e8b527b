// Operations that give and take parts: gatherings, scatterings, reductions to some.
#include <fmt/core.h>

#include <numeric>

#include "engine/context/operands.h"

namespace weft {

Status Context::Core::check_root(std::string_view what, Rank root) const {
  if (root >= 0 && root < config_.size) return {};
  return invalid(
      fmt::format("{}: the root {} is not one of the ranks 0…{}", what, root, config_.size - 1));
}

// One part for each rank, one after another: as counted, or of `each` elements.
Status Context::Core::give_parts(std::string_view what, std::vector<Range>& parts,
                                 std::span<const std::size_t> counts, std::size_t each) {
  const auto ranks = static_cast<std::size_t>(config_.size);
  if (!counts.empty() && counts.size() != ranks) {
    return invalid(fmt::format("{}: {} counts for {} ranks", what, counts.size(), ranks));
  }
  std::size_t offset = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t count = counts.empty() ? each : counts[rank];
    parts.push_back({offset, count});
    offset += count;
  }
  return {};
}

namespace {

std::size_t total(const std::vector<Range>& parts) {
  return parts.back().offset + parts.back().count;
}

// `whole` is what the parts make up, `part` this rank's.
Status check_counts(std::string_view what, const std::vector<Range>& parts, Rank rank,
                    std::size_t whole, std::size_t part) {
  const std::size_t own = parts[static_cast<std::size_t>(rank)].count;
  if (own != part) {
    return invalid(
        fmt::format("{}: this rank's count is {}, its part has {} elements", what, own, part));
  }
  if (total(parts) == whole) return {};
  return invalid(fmt::format("{}: the ranks' parts have {} elements, together they should have {}",
                             what, total(parts), whole));
}

}  // namespace

Status Context::Core::invoke_allgather(Invocation& invocation, const Input& x, const Output& y,
                                       std::span<const std::size_t> counts) {
  WEFT_RETURN_IF_ERROR(give_parts("allgather", invocation.given, counts, x.count));
  WEFT_RETURN_IF_ERROR(check_counts("allgather", invocation.given, config_.rank, y.count, x.count));
  const Range own = invocation.given[static_cast<std::size_t>(config_.rank)];
  WEFT_ASSIGN(const bool in_place, check_part("allgather", x, y, own));
  bind(invocation.call, Collective::allgather, x, y);
  invocation.call.given = invocation.given;
  PlanKey key;
  key.collective = Collective::allgather;
  key.in_place = in_place;
  key.bytes = y.count * size_of(y.type);
  return plan_everybody(invocation, key, [&] {
    return plan_allgather(config_.rank, config_.size, key.bytes, Shape{in_place});
  });
}

Status Context::Core::invoke_reduce_scatter(Invocation& invocation, const Input& x, const Output& y,
                                            ReduceOp op, std::span<const std::size_t> counts) {
  const auto ranks = static_cast<std::uint32_t>(config_.size);
  if (counts.empty()) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      invocation.given_input.push_back(block_range(x.count, 1, ranks, rank));
    }
  } else {
    WEFT_RETURN_IF_ERROR(give_parts("reduce_scatter", invocation.given_input, counts, 0));
  }
  WEFT_RETURN_IF_ERROR(
      check_counts("reduce_scatter", invocation.given_input, config_.rank, x.count, y.count));
  const Range own = invocation.given_input[static_cast<std::size_t>(config_.rank)];
  WEFT_ASSIGN(const bool in_place, check_part("reduce_scatter", x, y, own));
  bind(invocation.call, Collective::reduce_scatter, x, y);
  WEFT_RETURN_IF_ERROR(bind_reduction("reduce_scatter", invocation.call, x.type, op, config_.size));
  invocation.call.given_input = invocation.given_input;
  PlanKey key;
  key.collective = Collective::reduce_scatter;
  key.in_place = in_place;
  key.bytes = x.count * size_of(x.type);
  return plan_everybody(invocation, key, [&] {
    return plan_reduce_scatter(config_.rank, config_.size, key.bytes, Shape{in_place});
  });
}

Status Context::Core::invoke_gather(Invocation& invocation, const Input& x, const Output& y,
                                    Rank root, std::span<const std::size_t> counts) {
  WEFT_RETURN_IF_ERROR(check_root("gather", root));
  const Output result = root == config_.rank ? y : Output{nullptr, 0, x.type};
  bool in_place = false;
  if (root == config_.rank) {
    WEFT_RETURN_IF_ERROR(give_parts("gather", invocation.given, counts, x.count));
    WEFT_RETURN_IF_ERROR(check_counts("gather", invocation.given, root, y.count, x.count));
    WEFT_ASSIGN(in_place,
                check_part("gather", x, y, invocation.given[static_cast<std::size_t>(root)]));
  } else {
    WEFT_RETURN_IF_ERROR(check_memory("gather", x, result));
  }
  bind(invocation.call, Collective::gather, x, result);
  invocation.call.given = invocation.given;
  PlanKey key;
  key.collective = Collective::gather;
  key.in_place = in_place;
  key.root = root;
  return plan_everybody(invocation, key, [&] {
    return plan_gather(config_.rank, config_.size, root, Shape{in_place});
  });
}

Status Context::Core::invoke_scatter(Invocation& invocation, const Input& x, const Output& y,
                                     Rank root, std::span<const std::size_t> counts) {
  WEFT_RETURN_IF_ERROR(check_root("scatter", root));
  const Input source = root == config_.rank ? x : Input{nullptr, 0, y.type};
  bool in_place = false;
  if (root == config_.rank) {
    WEFT_RETURN_IF_ERROR(give_parts("scatter", invocation.given_input, counts, y.count));
    WEFT_RETURN_IF_ERROR(check_counts("scatter", invocation.given_input, root, x.count, y.count));
    WEFT_ASSIGN(in_place, check_part("scatter", x, y,
                                     invocation.given_input[static_cast<std::size_t>(root)]));
  } else {
    WEFT_RETURN_IF_ERROR(check_memory("scatter", source, y));
  }
  bind(invocation.call, Collective::scatter, source, y);
  invocation.call.given_input = invocation.given_input;
  PlanKey key;
  key.collective = Collective::scatter;
  key.in_place = in_place;
  key.root = root;
  return plan_everybody(invocation, key, [&] {
    return plan_scatter(config_.rank, config_.size, root, Shape{in_place});
  });
}

// Without counts all blocks are equal.
Status Context::Core::invoke_alltoall(Invocation& invocation, const Input& x, const Output& y,
                                      std::span<const std::size_t> send_counts,
                                      std::span<const std::size_t> receive_counts) {
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
  WEFT_RETURN_IF_ERROR(give_parts("alltoall", invocation.given_input, send_counts, each));
  WEFT_RETURN_IF_ERROR(give_parts("alltoall", invocation.given, receive_counts, each));
  const bool in_place = is_in_place(x, y);
  if (total(invocation.given_input) != x.count || total(invocation.given) != y.count) {
    return invalid(fmt::format("alltoall: counts of {} and {} elements for {} in and {} out",
                               total(invocation.given_input), total(invocation.given), x.count,
                               y.count));
  }
  if (in_place && !std::ranges::equal(send_counts, receive_counts)) {
    return invalid("alltoall: in place, as much comes from each rank as goes to it");
  }
  const auto own = static_cast<std::size_t>(config_.rank);
  if (invocation.given_input[own].count != invocation.given[own].count) {
    return invalid(fmt::format("alltoall: rank {} sends itself {} elements and expects {}", own,
                               invocation.given_input[own].count, invocation.given[own].count));
  }
  bind(invocation.call, Collective::alltoall, x, y);
  invocation.call.given_input = invocation.given_input;
  invocation.call.given = invocation.given;
  PlanKey key;
  key.collective = Collective::alltoall;
  key.in_place = in_place;
  return plan_everybody(invocation, key,
                        [&] { return plan_alltoall(config_.rank, config_.size, Shape{in_place}); });
}

Status Context::Core::invoke_reduce(Invocation& invocation, const Input& x, const Output& y,
                                    Rank root, ReduceOp op) {
  WEFT_RETURN_IF_ERROR(check_root("reduce", root));
  const Output result = root == config_.rank ? y : Output{nullptr, 0, x.type};
  if (root == config_.rank) {
    WEFT_RETURN_IF_ERROR(check_same_count("reduce", x, y));
  } else {
    WEFT_RETURN_IF_ERROR(check_memory("reduce", x, result));
  }
  bind(invocation.call, Collective::reduce, x, result);
  WEFT_RETURN_IF_ERROR(bind_reduction("reduce", invocation.call, x.type, op, config_.size));
  PlanKey key;
  key.collective = Collective::reduce;
  key.in_place = is_in_place(x, result);
  key.root = root;
  key.bytes = x.count * size_of(x.type);
  return plan_everybody(invocation, key, [&] {
    return plan_reduce(config_.rank, config_.size, root, key.bytes, Shape{key.in_place});
  });
}

}  // namespace weft
