// One allgather of records tells each rank what the others want.
#include "engine/algorithms/agreement.h"

#include <fmt/core.h>
#include <weft/macros.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace weft {
namespace {

// What a rank tells the others.
struct Record {
  std::uint32_t code;  // of its error; 0: none
  char error[156];
  char name[96];
  char rest[224];
};

template <std::size_t kBytes>
void put(char (&to)[kBytes], std::string_view text) {
  const std::size_t bytes = std::min(text.size(), kBytes - 1);
  std::memcpy(to, text.data(), bytes);
}

}  // namespace

Status agree(Context& context, std::string_view title, const CommonArguments& arguments,
             const Status& own) {
  Record mine{};
  mine.code = static_cast<std::uint32_t>(own.code());
  if (!own.ok()) put(mine.error, own.text());
  put(mine.name, arguments.name);
  put(mine.rest, arguments.rest);
  std::vector<Record> all(static_cast<std::size_t>(context.size()));
  WEFT_RETURN_IF_ERROR(context.allgather({&mine, sizeof mine, DataType::u8},
                                         {all.data(), all.size() * sizeof mine, DataType::u8}));
  WEFT_RETURN_IF_ERROR(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].code == 0) continue;
    return Status(static_cast<Code>(all[rank].code),
                  fmt::format("rank {}: {}", rank, all[rank].error), static_cast<Rank>(rank));
  }
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const bool is_named = std::strcmp(all[rank].name, all[0].name) == 0;
    if (is_named && std::strcmp(all[rank].rest, all[0].rest) == 0) continue;
    const auto text = [&](const Record& record) { return is_named ? record.rest : record.name; };
    return Status(Code::mismatch,
                  fmt::format("{}: ranks 0 and {} disagree: {} and {}", title, rank, text(all[0]),
                              text(all[rank])),
                  static_cast<Rank>(rank));
  }
  return {};
}

}  // namespace weft
