// folder: the folder of the sockets, and their names. Internal to the module.
#pragma once

#include <sys/un.h>

#include <string>
#include <string_view>

#include "engine/live/live.h"

namespace weft::live {

inline constexpr std::string_view kGreeting = "weft-live 1 ";
inline constexpr std::size_t kMostQuestion = 160;

// ok, or why the folder is not to be trusted.
[[nodiscard]] Status check_folder(const std::string& folder);
// The address of a path; invalid_argument: it is too long for a socket.
[[nodiscard]] Result<sockaddr_un> address_of(const std::string& path);
// Whether the kernel says that the other end is a process of our own user; with its number.
[[nodiscard]] bool is_own_user(const Fd& socket, pid_t& process);

}  // namespace weft::live
