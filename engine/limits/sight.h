// Sight: another rank's memory, as this rank can reach it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

struct Sight {
  std::byte* mapped = nullptr;  // null: not mapped; it can be read by system call only
  std::uint64_t address = 0;    // in its process
  std::int32_t process = 0;
};

}  // namespace weft
