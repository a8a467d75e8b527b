// space: address space for heap files, ours and peers'. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

inline constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

// Maps the first `bytes` of a file, whole huge pages, at an address that is a multiple of a huge
// page. The kernel maps huge pages only at such addresses, which mmap alone does not promise. The
// error `exhausted` names WEFT_HEAP_MIB, and the limit of address space if one is set. `whose`
// completes "mapping the shared heap of …".
[[nodiscard]] Result<std::byte*> map_aligned(int file, std::uint64_t bytes, std::string_view whose);

// The bytes of address space that this process may still take (`ulimit -v`); the largest number if
// no limit is set.
[[nodiscard]] std::uint64_t free_address_space();

// The bytes that a file of this process may have (`ulimit -f`); the largest number if no limit is set.
[[nodiscard]] std::uint64_t most_file_bytes();

}  // namespace weft
