// The functions of UCX, loaded at run time: a host without UCX still starts. Internal to the
// module.
//
// The table is made at the first use and lives as long as the process. UCX installs handlers for
// the process's fatal signals and prints a log of its own; loading it here undoes both. The line
// that UCX would have printed last on a thread is kept, because it names devices and addresses,
// which UCX's error codes do not.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft::ucx {

struct Library {
  decltype(&ucp_get_version) get_version;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_modify) config_modify;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_init_version) init_version;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_flush_nbx) worker_flush;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_address) worker_get_address;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_worker_get_efd) worker_get_efd;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_worker_arm) worker_arm;
  decltype(&ucp_worker_signal) worker_signal;
  decltype(&ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close;
  decltype(&ucp_ep_flush_nbx) ep_flush;
  decltype(&ucp_am_send_nbx) am_send;
  decltype(&ucp_am_recv_data_nbx) am_recv_data;
  decltype(&ucp_am_data_release) am_data_release;
  decltype(&ucp_request_free) request_free;
  decltype(&ucs_status_string) status_string;
};

// The table, or why UCX cannot be used on this host.
[[nodiscard]] Result<const Library*> library();

// A Status for an answer of UCX: "what: UCX's words".
[[nodiscard]] Status ucx_error(std::string_view what, ucs_status_t status, Rank rank = kNoRank);

// The line that UCX last wanted to log on this thread. It is returned once; after that it is empty.
[[nodiscard]] std::string take_words();

}  // namespace weft::ucx
