// library: the PMIx library as a table of its functions, loaded at run time. If libpmix is missing,
// programs start all the same, and only the use of PMIx is an error.
//
// The library and the table stay until the process ends. PMIx has one thread of its own, which
// makes all callbacks. These take a lock, store the answer and return.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft::pmix {

struct Library {
  decltype(&PMIx_Error_string) error_string;
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Get_nb) get_nb;
  decltype(&PMIx_Fence_nb) fence_nb;
  decltype(&PMIx_Notify_event) notify_event;
  decltype(&PMIx_Register_event_handler) register_event_handler;
  decltype(&PMIx_Deregister_event_handler) deregister_event_handler;
  decltype(&PMIx_server_init) server_init;
  decltype(&PMIx_server_finalize) server_finalize;
  decltype(&PMIx_server_register_nspace) server_register_nspace;
  decltype(&PMIx_server_register_client) server_register_client;
  decltype(&PMIx_server_setup_fork) server_setup_fork;
  decltype(&PMIx_generate_regex) generate_regex;
  decltype(&PMIx_generate_ppn) generate_ppn;
};

// Loads the library in the first call. `unavailable` says what is missing.
[[nodiscard]] Result<const Library*> library();

// An error such as "PMIx: put 'x': OUT-OF-RESOURCE".
[[nodiscard]] Status failure(const Library& library, std::string_view what, pmix_status_t status);

// Guards answers, and wakes the threads that wait for them.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
};

// A request and its answer. The caller and the callback both hold it, because the answer may come
// after the caller has stopped waiting. PMIx does not copy the request; it reads it until it
// answers, even after the call has returned.
struct Answer {
  std::shared_ptr<Bell> bell;
  std::string key;
  pmix_proc_t process{};
  std::vector<pmix_info_t> infos;
  bool is_here = false;
  pmix_status_t status = PMIX_SUCCESS;
  std::string value;          // the answer to a get
  std::size_t reference = 0;  // the answer to the registration of an event handler
};
[[nodiscard]] std::shared_ptr<Answer> new_answer(const std::shared_ptr<Bell>& bell);

// The callbacks that fill in an Answer. share() makes the pointer that a callback gets as its data;
// the callback owns it.
[[nodiscard]] void* share(const std::shared_ptr<Answer>& answer);
void take_back(void* shared);  // frees it if the request was refused and no callback follows
void on_done(pmix_status_t status, void* shared);
void on_value(pmix_status_t status, pmix_value_t* value, void* shared);
void on_registered(pmix_status_t status, std::size_t reference, void* shared);

// Waits for the answer and returns its status; PMIX_ERR_TIMEOUT at the deadline.
[[nodiscard]] pmix_status_t await(Answer& answer, Deadline deadline);

[[nodiscard]] pmix_proc_t process(std::string_view name_space, pmix_rank_t rank);
// One attribute of a request. Text is not copied, so it must outlive the request.
[[nodiscard]] pmix_info_t flag(std::string_view key);
[[nodiscard]] pmix_info_t number(std::string_view key, std::uint32_t value);
[[nodiscard]] pmix_info_t small_number(std::string_view key, std::uint16_t value);
[[nodiscard]] pmix_info_t seconds(std::string_view key, int value);
[[nodiscard]] pmix_info_t text(std::string_view key, const std::string& value);
[[nodiscard]] pmix_info_t process_rank(std::string_view key, pmix_rank_t value);
[[nodiscard]] pmix_info_t process_name(std::string_view key, pmix_proc_t& value);

// The events that a rank sends about itself. Their numbers are of the range that PMIx leaves to its
// users.
inline constexpr pmix_status_t kLeft = PMIX_EXTERNAL_ERR_BASE - 871;
inline constexpr pmix_status_t kDied = PMIX_EXTERNAL_ERR_BASE - 872;

// The events for the end of a process, with the names of PMIx 3 to 5, and for the end of the
// connection to the server.
inline constexpr std::array kDeaths{PMIX_ERR_PROC_ABORTED,      PMIX_ERR_PROC_ABORTED_BY_SIG,
                                    PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_PROC_TERMINATED,
                                    PMIX_EVENT_PROC_TERMINATED, kDied};
inline constexpr std::array kLosses{PMIX_ERR_LOST_CONNECTION, PMIX_ERR_LOST_CONNECTION_TO_SERVER};

}  // namespace weft::pmix
