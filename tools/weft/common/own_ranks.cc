// own_ranks: the command line comes from the kernel.
#include "tools/weft/common/own_ranks.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>

namespace weft {
namespace {

// After Ctrl-C, for what ranks have measured so far.
constexpr std::int64_t kGraceMs = 10'000;

Result<std::vector<std::string>> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < all.size(); at += words.back().size() + 1) {
    words.emplace_back(all.c_str() + at);
  }
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (words.empty() || length < 0) return system_error("read /proc/self/exe", errno);
  words[0].assign(path.data(), static_cast<std::size_t>(length));
  return words;
}

}  // namespace

Result<int> run_own_ranks(int ranks, Binding binding) {
  JobOptions options;
  options.ranks = ranks;
  options.binding = binding;
  options.tag = false;
  options.grace_ms = kGraceMs;
  WEFT_ASSIGN(options.command, own_command_line());
  Job job(options);
  WEFT_RETURN_IF_ERROR(job.start());
  return job.run();
}

}  // namespace weft
