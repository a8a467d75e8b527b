// Whose folder it is, and what lies in it.
#include "engine/live/folder.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <tuple>

#include "engine/bootstrap/bootstrap.h"

namespace weft {
namespace {

constexpr std::size_t kJobDigits = 32;

std::optional<Rank> number_in(std::string_view text) {
  Rank number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// JOB-RANK-PID.
std::optional<LiveSocket> socket_of(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t last = name.rfind('-');
  if (last == std::string::npos || last <= kJobDigits || name[kJobDigits] != '-')
    return std::nullopt;
  const std::string_view all = name;
  const auto rank = number_in(all.substr(kJobDigits + 1, last - kJobDigits - 1));
  if (!rank || !number_in(all.substr(last + 1))) return std::nullopt;
  if (!std::ranges::all_of(all.substr(0, kJobDigits),
                           [](unsigned char c) { return std::isxdigit(c) != 0; }))
    return std::nullopt;
  return LiveSocket{path.string(), name.substr(0, kJobDigits), *rank};
}

}  // namespace

std::string live_job(std::string_view job_key) {
  const std::string text =
      job_key.empty() ? fmt::format("weft live of {}", ::getppid()) : std::string("weft live");
  std::string digits;
  for (const char byte : key_proof(job_key, text).substr(0, kJobDigits / 2))
    digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

std::string live_folder(const std::string& setting) {
  if (setting != "auto") return setting;
  const std::string own = fmt::format("/run/user/{}", ::geteuid());
  return ::access(own.c_str(), W_OK) == 0 ? own + "/weft"
                                          : fmt::format("/tmp/weft-{}", ::geteuid());
}

Result<std::vector<LiveSocket>> list_live(const std::string& setting) {
  const std::string folder = live_folder(setting);
  std::vector<LiveSocket> sockets;
  if (::access(folder.c_str(), F_OK) != 0 && errno == ENOENT) return sockets;
  WEFT_RETURN_IF_ERROR(live::check_folder(folder));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (auto found = socket_of(entry.path())) sockets.push_back(*std::move(found));
  }
  if (error) return Status(Code::system, fmt::format("the folder {}: {}", folder, error.message()));
  std::ranges::sort(
      sockets, {}, [](const LiveSocket& each) { return std::tie(each.job, each.rank, each.path); });
  return sockets;
}

namespace live {

Status check_folder(const std::string& folder) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return system_error("the folder " + folder, errno);
  if (!S_ISDIR(found.st_mode))
    return Status(Code::invalid_argument, fmt::format("{} is no folder", folder));
  if (found.st_uid != ::geteuid())
    return Status(Code::no_permission,
                  fmt::format("the folder {} belongs to user {}", folder, found.st_uid));
  constexpr mode_t kOthers = 077;
  if ((found.st_mode & kOthers) != 0)
    return Status(Code::no_permission,
                  fmt::format("others may enter the folder {} (chmod 700 {})", folder, folder));
  return {};
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Status(Code::invalid_argument,
                  fmt::format("the name {} is too long for a socket: at most {} bytes", path,
                              sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

bool is_own_user(const Fd& socket, pid_t& process) {
  ucred other{};
  socklen_t bytes = sizeof other;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &other, &bytes) != 0) return false;
  process = other.pid;
  return other.uid == ::geteuid();
}

}  // namespace live
}  // namespace weft
