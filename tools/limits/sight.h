// Sight: another rank's memory, as this rank can reach it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbs/base/base.h"

namespace weft {

struct Sight {
  std::byte* mapped = nullptr;  // null: not mapped; it can be read by system call only
  std::uint64_t address = 0;    // in its process
  std::int32_t process = 0;
};

// Copies bytes that are not mapped, with process_vm_readv. The kernel may forbid it.
Status read_from(const Sight& from, std::size_t offset, std::byte* to, std::size_t bytes);

}  // namespace weft
