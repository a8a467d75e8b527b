// text: whole files of text that users name, read in bounded time and memory, whatever the name
// leads to: a folder, a device, a pipe that nobody writes to, a file of many gigabytes.
// Keeps nothing; any thread may call.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

// The file's bytes. `invalid_argument`, or what the operating system says, names it: also where it
// holds more than `most` bytes or a zero byte, or is neither a file nor a pipe. A pipe, as
// of `<(lstopo --of xml)`, is waited for at most 10 s at a time.
[[nodiscard]] Result<std::string> read_text(const std::string& path, std::size_t most);

// The line in which a byte stands, from 1; the last for what is past the end.
[[nodiscard]] int line_at(std::string_view text, std::size_t offset);

}  // namespace weft
