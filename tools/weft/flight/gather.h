// gather: dumps from files, and from the live sockets of ranks on this host. What cannot be had is a line,
// and the rest goes on. Internal to the commands flight and top.
#pragma once

#include <string>
#include <vector>

#include "engine/live/live.h"
#include "tools/weft/flight/dump.h"

namespace weft::dumps {

struct Gathered {
  std::vector<Part> parts;
  std::vector<std::string> remarks;
  std::vector<pid_t> processes;  // of the sockets that answered
  std::string metrics;           // if asked for: of all, one after the other
};

[[nodiscard]] Gathered gather_files(const std::vector<std::string>& paths);
// `question`: as of the socket.
[[nodiscard]] Result<Gathered> gather_live(const std::string& folder, const std::string& question,
                                           Deadline deadline);

}  // namespace weft::dumps
