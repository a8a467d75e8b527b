// check_descriptors: whether the process can open so many more file descriptors. For libraries that
// end the process where they cannot open one. Another thread may take them a moment later, so who
// asks adds a margin. Thread safe; some microseconds.
#pragma once

#include <string_view>

#include "verbs/base/status.h"

namespace weft {

// exhausted: "WHAT needs COUNT more file descriptors …", with the process's limit (RLIMIT_NOFILE).
[[nodiscard]] Status check_descriptors(std::string_view what, int count);

}  // namespace weft
