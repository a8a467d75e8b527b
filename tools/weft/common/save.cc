// Documents into files.
#include "tools/weft/common/save.h"

#include <cerrno>
#include <fstream>

namespace weft {

Status save(const std::string& path, const std::string& document) {
  errno = 0;
  std::ofstream file(path);
  file << document << std::flush;
  return file.good() ? Status{} : system_error("cannot write " + path, errno);
}

}  // namespace weft
