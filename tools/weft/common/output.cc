// Lines in, tagged lines out.
#include "tools/weft/common/output.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace weft {

void Tagger::emit(std::string_view line, std::string& out) {
  out.append(tag_);
  out.append(line);
  out.push_back('\n');
}

void Tagger::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = kMaxLine - partial_.size();
    const std::size_t take = std::min({newline, room, bytes.size()});
    partial_.append(bytes.substr(0, take));
    bytes.remove_prefix(take);
    const bool is_line = !bytes.empty() && bytes.front() == '\n';
    if (is_line) bytes.remove_prefix(1);
    if (is_line || partial_.size() == kMaxLine) {
      emit(partial_, out);
      partial_.clear();
    }
  }
}

void Tagger::end(std::string& out) {
  if (!partial_.empty()) emit(partial_, out);
  partial_.clear();
}

int Sink::flush() {
  if (is_broken_) {
    pending.clear();
    return 0;
  }
  // POLLOUT promises a pipe's reader room for PIPE_BUF bytes and no more; our streams are not
  // non-blocking, because that flag would be shared with the shell that gave them to us.
  const ssize_t count =
      ::write(fd_, pending.data(), std::min<std::size_t>(pending.size(), PIPE_BUF));
  if (count >= 0) {
    pending.erase(0, static_cast<std::size_t>(count));
    return 0;
  }
  if (errno == EINTR || errno == EAGAIN) return 0;
  is_broken_ = true;
  pending.clear();
  return errno;
}

}  // namespace weft
