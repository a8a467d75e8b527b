// bytes: sizes as the command line has them: "4", "64K", "1M", "2G", in powers of 1024. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

[[nodiscard]] Result<std::size_t> bytes_from(std::string_view text);
// The same for the value of an option, which errors name: "--sizes: …".
[[nodiscard]] Result<std::size_t> bytes_of(std::string_view option, std::string_view text);
// The largest unit of which it is a whole number: "1536K".
[[nodiscard]] std::string bytes_text(std::size_t bytes);

}  // namespace weft
