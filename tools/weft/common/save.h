// Files that subcommands write when they are asked to.
#pragma once

#include <string>

#include "verbs/base/base.h"

namespace weft {

// The whole document; an error names the file.
[[nodiscard]] Status save(const std::string& path, const std::string& document);

}  // namespace weft
