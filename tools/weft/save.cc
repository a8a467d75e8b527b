// Documents into files.
#include "tools/weft/save.h"

#include <fstream>

namespace weft {

Status save(const std::string& path, const std::string& document) {
  std::ofstream file(path);
  file << document << std::flush;
  return file.good() ? Status{} : Status(Code::system, "cannot write " + path);
}

}  // namespace weft
