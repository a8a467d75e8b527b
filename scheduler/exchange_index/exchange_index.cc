// exchange_index: see the header.
#include "scheduler/exchange_index/exchange_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace weft {
namespace {

constexpr std::size_t kWordBits = 64;

Status invalid(const std::string& text) {
  return {Code::invalid_argument, "exchange index: " + text};
}

bool is_set(std::span<const std::uint64_t> bits, Rank worker) {
  const auto at = static_cast<std::size_t>(worker);
  return (bits[at / kWordBits] >> at % kWordBits & 1) != 0;
}
void set(std::span<std::uint64_t> bits, Rank worker) {
  const auto at = static_cast<std::size_t>(worker);
  bits[at / kWordBits] |= std::uint64_t{1} << at % kWordBits;
}

}  // namespace

Result<ExchangeIndex> ExchangeIndex::make(const ExchangeOptions& options) {
  if (options.workers < 1) return invalid(fmt::format("{} workers", options.workers));
  if (options.colayers < 1) return invalid(fmt::format("{} colayers", options.colayers));
  if (options.staleness < 0) return invalid(fmt::format("a staleness of {}", options.staleness));
  if (options.staleness == 0 && options.rule == ExchangeRule::bounded)
    return invalid("a staleness of 0 lets nobody go on; that is the rule `bulk`");
  if (options.rule == ExchangeRule::canary &&
      (options.proportion < 0 || options.proportion > options.colayers)) {
    return invalid(
        fmt::format("a proportion of {} of {} colayers", options.proportion, options.colayers));
  }
  if (options.rows <= options.staleness) {
    return invalid(
        fmt::format("{} rows do not exceed the staleness of {}", options.rows, options.staleness));
  }
  return ExchangeIndex(options);
}

ExchangeIndex::ExchangeIndex(const ExchangeOptions& options)
    : options_(options),
      words_((static_cast<std::size_t>(options.workers) + kWordBits - 1) / kWordBits),
      begun_(static_cast<std::size_t>(options.workers), -1),
      left_(words_, 0),
      bits_(static_cast<std::size_t>(options.rows) * row_words(), 0) {}

std::size_t ExchangeIndex::row_words() const {
  return static_cast<std::size_t>(options_.colayers) * words_;
}

Status ExchangeIndex::check_worker(Rank worker) const {
  if (worker >= 0 && worker < options_.workers) return {};
  return invalid(
      fmt::format("rank {} is not one of the workers 0…{}", worker, options_.workers - 1));
}

bool ExchangeIndex::is_kept(std::int64_t iteration) const {
  return iteration >= 0 && iteration <= top_ && iteration > top_ - options_.rows;
}

void ExchangeIndex::advance(std::int64_t iteration) {
  const std::int64_t first = std::max(top_ + 1, iteration - options_.rows + 1);
  for (std::int64_t row = first; row <= iteration; ++row) {
    const auto at = static_cast<std::size_t>(row % options_.rows) * row_words();
    std::fill_n(bits_.begin() + static_cast<std::ptrdiff_t>(at), row_words(), 0);
  }
  top_ = std::max(top_, iteration);
}

std::span<std::uint64_t> ExchangeIndex::bitmap(int colayer, std::int64_t iteration) {
  const auto row = static_cast<std::size_t>(iteration % options_.rows);
  return std::span(bits_).subspan(row * row_words() + static_cast<std::size_t>(colayer) * words_,
                                  words_);
}
std::span<const std::uint64_t> ExchangeIndex::bitmap(int colayer, std::int64_t iteration) const {
  return const_cast<ExchangeIndex*>(this)->bitmap(colayer, iteration);
}

Status ExchangeIndex::begin(Rank worker, std::int64_t iteration) {
  WEFT_RETURN_IF_ERROR(check_worker(worker));
  std::int64_t& begun = begun_[static_cast<std::size_t>(worker)];
  if (iteration <= begun) {
    return invalid(fmt::format("rank {} begins iteration {} and has begun {} before", worker,
                               iteration, begun));
  }
  advance(iteration);
  begun = iteration;
  return {};
}

Status ExchangeIndex::add(Rank worker, int colayer, std::int64_t iteration) {
  WEFT_RETURN_IF_ERROR(check_worker(worker));
  if (colayer < 0 || colayer >= options_.colayers) {
    return invalid(fmt::format("colayer {} is not one of 0…{}", colayer, options_.colayers - 1));
  }
  if (iteration > iteration_of(worker)) {
    return invalid(fmt::format("rank {} has not begun iteration {}", worker, iteration));
  }
  if (!is_kept(iteration)) {
    return Status(
        Code::unavailable,
        fmt::format("exchange index: iteration {} of rank {} is too old: {} is the newest",
                    iteration, worker, top_),
        worker);
  }
  set(bitmap(colayer, iteration), worker);
  return {};
}

Status ExchangeIndex::leave(Rank worker) {
  WEFT_RETURN_IF_ERROR(check_worker(worker));
  set(left_, worker);
  return {};
}

bool ExchangeIndex::has_left(Rank worker) const {
  return is_set(left_, worker);
}

int ExchangeIndex::contributors(int colayer, std::int64_t iteration) const {
  if (!is_kept(iteration)) return 0;
  int count = 0;
  for (const std::uint64_t word : bitmap(colayer, iteration)) count += std::popcount(word);
  return count;
}

bool ExchangeIndex::has(Rank worker, int colayer, std::int64_t iteration) const {
  return is_kept(iteration) && is_set(bitmap(colayer, iteration), worker);
}

bool ExchangeIndex::is_complete(std::int64_t iteration) const {
  if (!is_kept(iteration)) return iteration >= 0 && iteration <= top_;
  for (int colayer = 0; colayer < options_.colayers; ++colayer) {
    const std::span<const std::uint64_t> bits = bitmap(colayer, iteration);
    for (Rank worker = 0; worker < options_.workers; ++worker)
      if (!has_left(worker) && !is_set(bits, worker)) return false;
  }
  return true;
}

std::int64_t ExchangeIndex::newest() const {
  return *std::ranges::max_element(begun_);
}

std::int64_t ExchangeIndex::iteration_of(Rank worker) const {
  return begun_[static_cast<std::size_t>(worker)];
}

int ExchangeIndex::proportion_of(Rank worker) const {
  int count = 0;
  for (int colayer = 0; colayer < options_.colayers; ++colayer)
    count += has(worker, colayer, iteration_of(worker)) ? 1 : 0;
  return count;
}

ExchangeIndex::Verdict ExchangeIndex::verdict(Rank worker) const {
  const std::int64_t own = iteration_of(worker);
  switch (options_.rule) {
    case ExchangeRule::bulk:
      return {is_complete(own) ? Verdict::What::go_on : Verdict::What::wait, kNoRank};
    case ExchangeRule::bounded: {
      std::int64_t slowest = own;
      for (Rank other = 0; other < options_.workers; ++other)
        if (!has_left(other)) slowest = std::min(slowest, iteration_of(other));
      return {own - slowest < options_.staleness ? Verdict::What::go_on : Verdict::What::wait,
              kNoRank};
    }
    case ExchangeRule::asynchronous:
      return {};
    case ExchangeRule::canary:
      break;
  }
  // The fastest of those that are there.
  Rank fastest = worker;
  for (Rank other = 0; other < options_.workers; ++other)
    if (!has_left(other) && iteration_of(other) > iteration_of(fastest)) fastest = other;
  const bool is_late = iteration_of(fastest) - own > options_.staleness;
  if (!is_late || proportion_of(worker) >= options_.proportion) return {};
  return {Verdict::What::drop, fastest};
}

void ExchangeIndex::write(std::vector<std::uint64_t>& to) const {
  to.clear();
  to.push_back(static_cast<std::uint64_t>(options_.workers) << 32 |
               static_cast<std::uint64_t>(options_.colayers));
  to.push_back(static_cast<std::uint64_t>(options_.rows));
  to.push_back(static_cast<std::uint64_t>(top_ + 1));
  for (const std::int64_t begun : begun_) to.push_back(static_cast<std::uint64_t>(begun + 1));
  to.insert(to.end(), left_.begin(), left_.end());
  to.insert(to.end(), bits_.begin(), bits_.end());
}

Status ExchangeIndex::merge(std::span<const std::uint64_t> from) {
  const std::size_t size = 3 + begun_.size() + left_.size() + bits_.size();
  const std::uint64_t shape = static_cast<std::uint64_t>(options_.workers) << 32 |
                              static_cast<std::uint64_t>(options_.colayers);
  const auto mismatch = [](const std::string& text) {
    return Status(Code::mismatch, "exchange index: " + text);
  };
  if (from.size() >= 2 &&
      (from[0] != shape || from[1] != static_cast<std::uint64_t>(options_.rows))) {
    return mismatch(
        fmt::format("a copy of {} workers, {} colayers and {} rows, and this one has {}, {} "
                    "and {}",
                    from[0] >> 32, from[0] & 0xFFFFFFFF, from[1], options_.workers,
                    options_.colayers, options_.rows));
  }
  if (from.size() != size)
    return mismatch(fmt::format("a copy of {} words instead of {}", from.size(), size));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  const std::span<const std::uint64_t> begun = from.subspan(3, begun_.size());
  const std::uint64_t newest = *std::ranges::max_element(begun);
  if (from[2] > kMost || newest > from[2]) return mismatch("a copy that contradicts itself");
  const std::int64_t top = static_cast<std::int64_t>(from[2]) - 1;
  advance(top);
  for (std::size_t worker = 0; worker < begun_.size(); ++worker)
    begun_[worker] = std::max(begun_[worker], static_cast<std::int64_t>(begun[worker]) - 1);
  const std::span<const std::uint64_t> left = from.subspan(3 + begun_.size(), left_.size());
  for (std::size_t word = 0; word < left_.size(); ++word) left_[word] |= left[word];
  const std::span<const std::uint64_t> bits = from.last(bits_.size());
  for (std::int64_t row = std::max<std::int64_t>(0, top - options_.rows + 1); row <= top; ++row) {
    if (!is_kept(row)) continue;
    const std::size_t at = static_cast<std::size_t>(row % options_.rows) * row_words();
    for (std::size_t word = at; word < at + row_words(); ++word) bits_[word] |= bits[word];
  }
  return {};
}

}  // namespace weft
