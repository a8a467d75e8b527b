// Files and sockets.
#include "tools/weft/flight/gather.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace weft::dumps {
namespace {

constexpr std::streamsize kMostBytes = std::streamsize{64} << 20;

void take(const std::string& from, std::string_view text, Gathered& to) {
  Result<Dump> dump = read_dump(from, text);
  if (!dump.ok()) {
    to.remarks.emplace_back(dump.status().text());
    return;
  }
  std::ranges::move(dump->remarks, std::back_inserter(to.remarks));
  std::ranges::move(dump->parts, std::back_inserter(to.parts));
}

// A process with several ranks answers for all at each socket; of several looks the newest counts.
void settle(Gathered& gathered) {
  std::vector<Part> parts;
  for (Part& part : gathered.parts) {
    const auto same = std::ranges::find_if(parts, [&part](const Part& other) {
      return other.job == part.job && other.context == part.context && other.rank == part.rank;
    });
    if (same == parts.end()) {
      parts.push_back(std::move(part));
    } else if (part.time_ns > same->time_ns) {
      *same = std::move(part);
    }
  }
  gathered.parts = std::move(parts);
}

}  // namespace

Gathered gather_files(const std::vector<std::string>& paths) {
  Gathered gathered;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      gathered.remarks.push_back(fmt::format("{}: cannot be read", path));
      continue;
    }
    std::string text(static_cast<std::size_t>(kMostBytes), '\0');
    file.read(text.data(), kMostBytes);
    text.resize(static_cast<std::size_t>(file.gcount()));
    take(path, text, gathered);
  }
  settle(gathered);
  return gathered;
}

Result<Gathered> gather_live(const std::string& folder, const std::string& question,
                             Deadline deadline) {
  WEFT_ASSIGN(const std::vector<LiveSocket> sockets, list_live(folder));
  Gathered gathered;
  for (const LiveSocket& socket : sockets) {
    const Result<LiveAnswer> answer = ask_live(socket, question, deadline);
    if (!answer.ok()) {
      gathered.remarks.push_back(
          fmt::format("rank {} ({}): {}", socket.rank, socket.path, answer.status().text()));
      continue;
    }
    gathered.processes.push_back(answer->process);
    if (question == "metrics") {
      gathered.metrics += answer->text;
    } else {
      take(socket.path, answer->text, gathered);
    }
  }
  settle(gathered);
  return gathered;
}

}  // namespace weft::dumps
