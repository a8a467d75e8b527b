// form: the bytes of entries. Internal to the module.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weft::record {

inline constexpr std::uint32_t kCall = 1, kResult = 2, kEnd = 3;

struct EntryHead {
  std::uint32_t kind = 0;
  std::uint32_t checksum = 0;  // CRC-32C of the body
  std::uint64_t bytes = 0;     // of the body
};
static_assert(std::is_trivially_copyable_v<EntryHead> && sizeof(EntryHead) == 16);

// The body of a call begins with this. The lists follow in the order of their lengths, and then the input.
struct CallHead {
  std::uint64_t number = 0;
  std::uint8_t collective = 0, type = 0, op = 0, algorithm = 0;
  std::uint8_t receives = 0, in_place = 0, has_input = 0, has_output = 0;
  std::int32_t root = 0, peer = 0;
  std::uint64_t input_count = 0, output_count = 0;
  double self_weight = 0, pair_weight = 0;
  std::uint32_t counts = 0, receive_counts = 0, group = 0, sources = 0, destinations = 0;
  std::uint32_t unused = 0;
};
static_assert(std::is_trivially_copyable_v<CallHead> && sizeof(CallHead) == 80);

struct ResultBody {
  std::uint64_t number = 0;
  std::uint32_t digest = 0;
  std::uint32_t code = 0;
};
static_assert(sizeof(ResultBody) == 16);

struct WireWeight {
  std::int32_t rank = 0;
  std::uint32_t unused = 0;
  double weight = 0;
};
static_assert(sizeof(WireWeight) == 16);

}  // namespace weft::record
