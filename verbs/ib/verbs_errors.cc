// Decoding the errors of verbs.
#include "verbs/ib/verbs_errors.h"

#include <fmt/core.h>

#include <cerrno>

namespace weft::ib {
namespace {

// The Status of an errno. ENOMEM mostly means that no more memory may be pinned.
Status error(std::string_view what, int number) {
  if (number == ENOMEM) {
    return Status(Code::exhausted,
                  fmt::format("{}: {}; the limit of locked memory may be too low (`ulimit -l`, "
                              "LimitMEMLOCK=infinity in a service's unit)",
                              what, errno_text(number)));
  }
  if (number == ENODEV || number == EIO || number == EOPNOTSUPP || number == ENETUNREACH ||
      number == EHOSTUNREACH || number == ETIMEDOUT || number == EINVAL) {
    return Status(Code::unavailable, fmt::format("{}: {}", what, errno_text(number)));
  }
  return system_error(what, number);
}

Code code_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return Code::timed_out;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return Code::no_permission;
    case IBV_WC_WR_FLUSH_ERR:
      return Code::closed;
    default:
      return Code::unavailable;
  }
}

}  // namespace

Status check_pointer(const void* object, std::string_view what) {
  return object != nullptr ? Status() : error(what, errno);
}

Status check_return(int answer, std::string_view what) {
  if (answer == 0) return {};
  return error(what, answer == -1 ? errno : answer < 0 ? -answer : answer);
}

Status check_count(int answer, std::string_view what) {
  if (answer >= 0) return {};
  return Status(Code::system, fmt::format("{}: the driver answered {}", what, answer));
}

std::string_view likely_cause(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "no answer came: a cable, a switch, the peer's port, or its process has ended";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer's receive queue stayed empty";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's memory is not registered for that, or was given back";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer does not expect such a request: another version of Weft, or of its driver";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device could not do it";
    case IBV_WC_LOC_PROT_ERR:
      return "memory of ours is not registered, or was given back while it was sent";
    case IBV_WC_LOC_LEN_ERR:
      return "longer than the device or the receiver's buffer takes";
    case IBV_WC_LOC_QP_OP_ERR:
      return "the device refused the work request";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair had failed before";
    case IBV_WC_FATAL_ERR:
      return "the device has failed";
    case IBV_WC_LOC_ACCESS_ERR:
      return "memory of ours was registered for reading alone";
    case IBV_WC_MW_BIND_ERR:
      return "the device could not bind a memory window, of which Weft has none";
    case IBV_WC_BAD_RESP_ERR:
      return "the peer's device answered another question: drivers or firmware that differ";
    case IBV_WC_REM_ABORT_ERR:
      return "the peer's device gave the request up";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "the peer's device took the request and did not answer in time";
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
      return "the driver: it is an error of reliable datagrams, which Weft does not use";
    default:
      return "the driver knows no more: the kernel's log (dmesg) may";
  }
}

Status completion_error(const Library& library, const ibv_wc& completion, const FailedWork& work) {
  return Status(
      code_of(completion.status),
      fmt::format(
          "{}: queue pair {}, work request {}: {} (status {}, vendor {:#x}); most likely {}",
          work.path, completion.qp_num, completion.wr_id, library.wc_status_str(completion.status),
          static_cast<int>(completion.status), completion.vendor_err,
          likely_cause(completion.status)),
      work.peer);
}

}  // namespace weft::ib
