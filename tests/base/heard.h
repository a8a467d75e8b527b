// What a server says to a client of a test.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "verbs/base/fd.h"

namespace weft {

// All of it, until the server hangs up; it ends with " (and hangs)" where the server is silent for so long.
inline std::string heard(const Fd& fd, int patience_ms) {
  std::string text;
  std::array<char, 4096> bytes;
  for (;;) {
    pollfd one{fd.get(), POLLIN, 0};
    if (::poll(&one, 1, patience_ms) != 1) return text + " (and hangs)";
    const ssize_t got = ::recv(fd.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace weft
