// Counts by opening: the table of the process, its limit and that of the system answer at once.
#include "verbs/base/descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <vector>

#include "verbs/base/fd.h"

namespace weft {

Status check_descriptors(std::string_view what, int count) {
  std::vector<Fd> opened;
  for (int i = 0; i < count; ++i) {
    Fd one(::open("/", O_PATH | O_CLOEXEC));
    if (!one.valid() && errno == EMFILE) {
      rlimit limit{};
      (void)::getrlimit(RLIMIT_NOFILE, &limit);
      return Status(Code::exhausted,
                    fmt::format("{} needs {} more file descriptors, and {} are left of the {} that "
                                "this process may have open (RLIMIT_NOFILE; raise it with `ulimit "
                                "-n`)",
                                what, count, i, limit.rlim_cur));
    }
    if (!one.valid()) {
      return system_error(
          fmt::format("{} needs {} more file descriptors; opening one of them", what, count),
          errno);
    }
    opened.push_back(std::move(one));
  }
  return {};
}

}  // namespace weft
