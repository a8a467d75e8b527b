// Loading UCX, and turning its answers into Status.
#include "verbs/ucx/library.h"

#include <fmt/core.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace weft::ucx {
namespace {

constexpr const char* kUnusable = "UCX cannot be used here";

std::string& words() {
  thread_local std::string last;
  return last;
}

// UCX calls this for what it would print.
ucs_log_func_rc_t keep_words(const char*, unsigned, const char*, ucs_log_level_t level,
                             const ucs_log_component_config_t*, const char* format, va_list rest) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 512> text{};
  if (std::vsnprintf(text.data(), text.size(), format, rest) > 0) words() = text.data();
  return UCS_LOG_FUNC_RC_STOP;
}

Status check_version(const Library& table) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  table.get_version(&major, &minor, &release);
  if (std::pair(major, minor) >= std::pair(unsigned{UCP_API_MAJOR}, unsigned{UCP_API_MINOR}))
    return {};
  return Status(Code::unavailable, fmt::format("UCX {}.{} is installed; Weft needs {}.{} or later",
                                               major, minor, UCP_API_MAJOR, UCP_API_MINOR));
}

Result<Library> load() {
  Library table{};
  decltype(&ucs_debug_disable_signal) disable_signal = nullptr;
  decltype(&ucs_log_push_handler) push_log_handler = nullptr;
  WEFT_RETURN_IF_ERROR(DynamicLibrary("libucs.so.0")
                           .find("ucs_status_string", table.status_string)
                           .find("ucs_debug_disable_signal", disable_signal)
                           .find("ucs_log_push_handler", push_log_handler)
                           .status(kUnusable));
  push_log_handler(keep_words);
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) disable_signal(signal);
  WEFT_RETURN_IF_ERROR(DynamicLibrary("libucp.so.0")
                           .find("ucp_get_version", table.get_version)
                           .find("ucp_config_read", table.config_read)
                           .find("ucp_config_modify", table.config_modify)
                           .find("ucp_config_release", table.config_release)
                           .find("ucp_init_version", table.init_version)
                           .find("ucp_cleanup", table.cleanup)
                           .find("ucp_worker_create", table.worker_create)
                           .find("ucp_worker_flush_nbx", table.worker_flush)
                           .find("ucp_worker_destroy", table.worker_destroy)
                           .find("ucp_worker_get_address", table.worker_get_address)
                           .find("ucp_worker_release_address", table.worker_release_address)
                           .find("ucp_worker_get_efd", table.worker_get_efd)
                           .find("ucp_worker_progress", table.worker_progress)
                           .find("ucp_worker_arm", table.worker_arm)
                           .find("ucp_worker_signal", table.worker_signal)
                           .find("ucp_worker_set_am_recv_handler", table.worker_set_am_recv_handler)
                           .find("ucp_ep_create", table.ep_create)
                           .find("ucp_ep_close_nbx", table.ep_close)
                           .find("ucp_ep_flush_nbx", table.ep_flush)
                           .find("ucp_am_send_nbx", table.am_send)
                           .find("ucp_am_recv_data_nbx", table.am_recv_data)
                           .find("ucp_am_data_release", table.am_data_release)
                           .find("ucp_request_free", table.request_free)
                           .status(kUnusable));
  WEFT_RETURN_IF_ERROR(check_version(table));
  return table;
}

const Result<Library>& loaded() {
  // Never destroyed: a static context may be the last that uses it.
  static const auto& once = *new Result<Library>(load());
  return once;
}

Code code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return Code::exhausted;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
      return Code::peer_died;
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT:
      return Code::timed_out;
    default:
      return Code::unavailable;
  }
}

}  // namespace

Result<const Library*> library() {
  const Result<Library>& table = loaded();
  if (!table.ok()) return table.status();
  return &table.value();
}

Status ucx_error(std::string_view what, ucs_status_t status, Rank rank) {
  const std::string said = take_words();
  return Status(code_of(status),
                fmt::format("{}: {}{}{}", what, loaded()->status_string(status),
                            said.empty() ? "" : ": ", said),
                rank);
}

std::string take_words() {
  return std::exchange(words(), {});
}

}  // namespace weft::ucx
