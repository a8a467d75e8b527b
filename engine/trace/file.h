// replace_file: how the files of this module, timelines and metrics, come into their places. Their
// names can be guessed, and may lie in folders that others write to. Private to trace.
#pragma once

#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

// The text goes into a new file beside `path`, which is then renamed. Readers see the old text or the
// new one as a whole. A symbolic link at `path` is replaced and not followed; what is neither a file nor
// a link stays, and is an error. The file has the rights that the umask leaves. Errors begin with
// `what` and the path. Never raises SIGXFSZ.
[[nodiscard]] Status replace_file(std::string_view what, const std::string& path,
                                  std::string_view text);

}  // namespace weft
