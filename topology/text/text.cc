// Files of text, read to their end or to their bound.
#include "topology/text/text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace weft {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr std::size_t kChunk = std::size_t{64} << 10;

Status wrong(const std::string& path, std::string_view what) {
  return Status(Code::invalid_argument, fmt::format("{}: {}", path, what));
}

Status too_long(const std::string& path, std::size_t most) {
  return wrong(path, fmt::format("is longer than {} MiB", most >> 20));
}

Status check_kind(int file, const std::string& path, std::size_t most) {
  struct stat state {};
  if (::fstat(file, &state) != 0) return system_error("stat " + path, errno);
  if (S_ISDIR(state.st_mode)) return wrong(path, "is a folder, not a file");
  if (!S_ISREG(state.st_mode) && !S_ISFIFO(state.st_mode))
    return wrong(path, "is neither a file nor a pipe");
  if (static_cast<std::uint64_t>(state.st_size) > most) return too_long(path, most);
  return {};
}

// More bytes at the end of `text`; false at the end of the file.
Result<bool> read_more(int file, const std::string& path, std::string& text) {
  const std::size_t before = text.size();
  text.resize(before + kChunk);
  const ssize_t got = ::read(file, text.data() + before, kChunk);
  const int error = errno;
  text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got >= 0) return got > 0;
  if (error == EINTR) return true;
  if (error != EAGAIN) return system_error("read " + path, error);
  pollfd writer{file, POLLIN, 0};
  if (::poll(&writer, 1, kPatienceMs) == 0)
    return wrong(path,
                 fmt::format("nothing was written to this pipe for {} s", kPatienceMs / 1000));
  return true;
}

}  // namespace

Result<std::string> read_text(const std::string& path, std::size_t most) {
  // Not to wait for a pipe's writer.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error("open " + path, errno);
  WEFT_RETURN_IF_ERROR(check_kind(file.get(), path, most));
  std::string text;
  for (bool more = true; more;) {
    WEFT_ASSIGN(more, read_more(file.get(), path, text));
    if (text.size() > most) return too_long(path, most);
  }
  if (const std::size_t at = text.find('\0'); at != std::string::npos)
    return wrong(path, fmt::format("is no text: byte {} is zero", at));
  return text;
}

int line_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  return 1 + static_cast<int>(std::ranges::count(before, '\n'));
}

}  // namespace weft
