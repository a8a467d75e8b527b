// gather: dumps from files, and from ranks that run: through their live sockets, on this host or on others. What
// cannot be had is a line, and the rest goes on. Internal to the commands flight and top.
#pragma once

#include <string>
#include <vector>

#include "engine/live/live.h"
#include "tools/weft/common/hosts.h"
#include "tools/weft/flight/dump.h"

namespace weft::dumps {

struct Gathered {
  std::vector<Part> parts;
  std::vector<std::string> remarks;
};

[[nodiscard]] Gathered gather_files(const std::vector<std::string>& paths);

// Which ranks are asked: those of a folder on this host, or on the hosts that are named.
struct Running {
  std::string folder = "auto";
  HostArguments hosts;
};
// `calls`: of the latest, so many of each context.
[[nodiscard]] Result<Gathered> gather_running(const Running& from, std::size_t calls);

struct Words {
  std::string text;
  std::vector<std::string> remarks;
};
// What another weft reads: the dumps of this host's ranks as they came, and remarks between them.
[[nodiscard]] Result<std::string> raw_dumps(const Running& from, std::size_t calls);
// Prometheus text of all ranks: each sample has the labels host, weft_job and rank.
[[nodiscard]] Result<Words> gather_metrics(const Running& from);

}  // namespace weft::dumps
