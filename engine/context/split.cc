// split: splitting a context. An allgather on the context tells every rank the colors and keys of
// all ranks. Everything else follows from these, so ranks of a color agree without further
// messages.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/context/core.h"

namespace weft {
namespace {

// The ranks of a color, sorted by key. Ranks with the same key keep their order.
std::vector<Rank> ranks_of(std::int32_t color, const std::vector<SplitChoice>& choices) {
  std::vector<Rank> ranks;
  for (std::size_t rank = 0; rank < choices.size(); ++rank) {
    if (choices[rank].color == color) ranks.push_back(static_cast<Rank>(rank));
  }
  std::ranges::stable_sort(ranks, {},
                           [&](Rank rank) { return choices[static_cast<std::size_t>(rank)].key; });
  return ranks;
}

}  // namespace

Result<std::shared_ptr<Context::Core>> Context::Core::split(int color, int key) {
  const SplitChoice own{color < 0 ? kNoColor : color, key};
  std::vector<SplitChoice> choices(static_cast<std::size_t>(config_.size));
  const Input mine{&own, 2, DataType::i32};
  const Output all{choices.data(), 2 * choices.size(), DataType::i32};
  WEFT_RETURN_IF_ERROR(
      run(Request{.collective = Collective::allgather, .input = mine, .output = all}));
  return split(choices);
}

Result<std::shared_ptr<Context::Core>> Context::Core::split(
    const std::vector<SplitChoice>& choices) {
  const std::uint32_t number = splits_++;
  const SplitChoice own = choices[static_cast<std::size_t>(config_.rank)];
  if (own.color < 0) return std::shared_ptr<Core>();
  Config config = config_;
  // The ranks of other colors still run on the same cores, so they still count as ranks of this
  // machine.
  if (config.local_size == 0) config.local_size = config.size;
  const std::string name = fmt::format("{}/split/{}/{}/", number_, number, own.color);
  if (!config.trace.empty()) config.trace += fmt::format(".split{}-{}", number, own.color);
  if (!config.flight.empty()) config.flight += fmt::format(".split{}-{}", number, own.color);
  return open_at(std::move(config), rank_map_.among(ranks_of(own.color, choices), name), number_,
                 hardware_);
}

std::vector<Rank> ranks_of_size(int size) {
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Each of the ranks knows which they are, so nothing needs to be exchanged.
Result<std::shared_ptr<Context::Core>> Context::Core::among(const std::vector<Rank>& ranks,
                                                            std::string_view purpose,
                                                            std::string_view number, Extra extra) {
  Config config = config_;
  if (config.local_size == 0) config.local_size = config.size;
  // The ranks that are left of some have a name of their own.
  const bool are_all = std::ssize(ranks) == config_.size;
  const std::string which =
      are_all ? std::string(number) : fmt::format("{}-{}", number, digest_of(ranks));
  if (!config.trace.empty()) config.trace += fmt::format(".{}{}", purpose, which);
  if (!config.flight.empty()) config.flight += fmt::format(".{}{}", purpose, which);
  const std::string name = fmt::format("{}/{}/{}/", number_, purpose, which);
  return open_at(std::move(config), rank_map_.among(ranks, name), number_, hardware_, extra);
}

}  // namespace weft
