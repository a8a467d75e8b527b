// The algorithms by size, as a user or a profile sets them.
#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>

#include "scheduler/plan/plan.h"

namespace weft {
namespace {

constexpr std::size_t kMostRows = 32;
constexpr std::size_t kNoBound = std::numeric_limits<std::size_t>::max();

Status wrong(std::string_view text, std::string_view why) {
  return {Code::invalid_argument, fmt::format("\"{}\": {}", text.substr(0, 200), why)};
}

std::optional<std::size_t> bytes_of(std::string_view text) {
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const bool is_read = error == std::errc{} && end == text.data() + text.size();
  return is_read && bytes < kNoBound ? std::optional(bytes) : std::nullopt;
}

}  // namespace

Result<AllreduceTable> AllreduceTable::parse(std::string_view text) {
  AllreduceTable table;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view row = rest.substr(0, comma);
    const bool is_last = comma == std::string_view::npos;
    const std::size_t colon = row.find(':');
    if (is_last == (colon != std::string_view::npos))
      return wrong(text, "each algorithm but the last one has a size, as in direct:16384,ring");
    WEFT_ASSIGN(const AllreduceAlgorithm algorithm, allreduce_algorithm(row.substr(0, colon)));
    if (algorithm == AllreduceAlgorithm::nccl)
      return wrong(text, "nccl is no algorithm of Weft's; WEFT_NCCL says when NCCL is used");
    const std::optional<std::size_t> most = is_last ? kNoBound : bytes_of(row.substr(colon + 1));
    if (!most) return wrong(text, "a size is a number of bytes");
    if (!table.rows_.empty() && *most <= table.rows_.back().most_bytes)
      return wrong(text, "sizes must ascend");
    if (table.rows_.size() == kMostRows) return wrong(text, "there are too many sizes");
    table.rows_.push_back({*most, algorithm});
    if (is_last) break;
    rest.remove_prefix(comma + 1);
  }
  if (table.rows_.size() == 1 && table.rows_[0].algorithm == AllreduceAlgorithm::automatic)
    table.rows_.clear();
  return table;
}

AllreduceAlgorithm AllreduceTable::at(std::size_t bytes) const {
  for (const Row& row : rows_)
    if (bytes <= row.most_bytes) return row.algorithm;
  return AllreduceAlgorithm::automatic;
}

}  // namespace weft
