// What the public Status (weft/status.h) has beside it inside Weft: errors of the operating system, and
// the macros that pass errors on.
#pragma once

#include <weft/macros.h>
#include <weft/status.h>

#include <string>
#include <string_view>

namespace weft {

// The text of an errno value, without the thread-safety traps of strerror.
[[nodiscard]] std::string errno_text(int error);
// A Status for a failed system call: "open /dev/shm/x: No space left on device". The code follows
// the errno: EACCES and EPERM no_permission, ENOMEM, ENOSPC, EMFILE and ENFILE exhausted, else
// system.
[[nodiscard]] Status system_error(std::string_view what, int error);

}  // namespace weft
