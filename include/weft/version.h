// The version of Weft: semantic, as CHANGELOG.md has it.
#pragma once

#include <weft/export.h>

#include <string_view>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 3
#define WEFT_VERSION_PATCH 0

namespace WEFT_PUBLIC weft {

// "0.3.0": of the library that is linked, which may be newer than the headers.
[[nodiscard]] std::string_view version();

}  // namespace weft
