// One allgather of records tells each rank what the others want.
#include "engine/algorithms/agreement.h"

#include <fmt/core.h>
#include <weft/macros.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {
namespace {

// What a rank tells the others.
struct Record {
  std::uint32_t code;  // of its error; 0: none
  char error[156];
  char name[96];
  char rest[216];
  std::uint64_t digest;  // of the whole of both
};

template <std::size_t kBytes>
void put(char (&to)[kBytes], std::string_view text) {
  const std::size_t bytes = std::min(text.size(), kBytes - 1);
  std::memcpy(to, text.data(), bytes);
}

std::string difference(const Record& a, const Record& b) {
  if (std::strcmp(a.name, b.name) != 0) return fmt::format("{} and {}", a.name, b.name);
  if (std::strcmp(a.rest, b.rest) != 0) return fmt::format("{} and {}", a.rest, b.rest);
  return fmt::format("both have {} {}…, and what follows differs", a.name, a.rest);
}

}  // namespace

Status agree(Context& context, std::string_view title, const CommonArguments& arguments,
             const Status& own) {
  Record mine{};
  mine.code = static_cast<std::uint32_t>(own.code());
  if (!own.ok()) put(mine.error, own.text());
  put(mine.name, arguments.name);
  put(mine.rest, arguments.rest);
  mine.digest = fnv1a64(arguments.rest, fnv1a64(arguments.name));
  std::vector<Record> all(static_cast<std::size_t>(context.size()));
  WEFT_RETURN_IF_ERROR(context.allgather({&mine, sizeof mine, DataType::u8},
                                         {all.data(), all.size() * sizeof mine, DataType::u8}));
  WEFT_RETURN_IF_ERROR(own);
  for (Record& each : all) {  // whatever a peer has sent ends somewhere
    std::end(each.error)[-1] = std::end(each.name)[-1] = std::end(each.rest)[-1] = '\0';
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].code == 0) continue;
    const bool is_known = all[rank].code <= static_cast<std::uint32_t>(kLastCode);
    return Status(is_known ? static_cast<Code>(all[rank].code) : Code::mismatch,
                  fmt::format("rank {}: {}", rank, all[rank].error), static_cast<Rank>(rank));
  }
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].digest == all[0].digest) continue;
    return Status(
        Code::mismatch,
        fmt::format("{}: ranks 0 and {} disagree: {}", title, rank, difference(all[0], all[rank])),
        static_cast<Rank>(rank));
  }
  return {};
}

}  // namespace weft
