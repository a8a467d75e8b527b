// Errors of verbs, as Status. They have four ways to say that something went wrong, and this is the
// only place that knows them. Internal to the module.
//
//   a pointer         null, and errno says why                    check_pointer()
//   an error number   the errno itself, positive                  check_return()
//   -1                and errno says why                          check_return()
//   a count           below 0 for an error, errno undefined       check_count()
#pragma once

#include <string>
#include <string_view>

#include "verbs/ib/library.h"

namespace weft::ib {

// ok if there is an object.
[[nodiscard]] Status check_pointer(const void* object, std::string_view what);
[[nodiscard]] Status check_return(int answer, std::string_view what);
[[nodiscard]] Status check_count(int answer, std::string_view what);

// Which work failed, for people.
struct FailedWork {
  std::string path;  // "ib:mlx5_0/1 to rank 3"
  Rank peer = kNoRank;
};

// The Status of a completion that is not good. Its text has the path, the queue pair, the work
// request, the driver's word and the most likely cause.
[[nodiscard]] Status completion_error(const Library& library, const ibv_wc& completion,
                                      const FailedWork& work);

// The most likely cause of a completion's status; empty where the status itself says it.
[[nodiscard]] std::string_view likely_cause(ibv_wc_status status);

}  // namespace weft::ib
