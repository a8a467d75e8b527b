// Reading another process's memory by system call.
#include "tools/limits/sight.h"

#include <sys/uio.h>

#include <cerrno>
#include <string>

namespace weft {

Status read_from(const Sight& from, std::size_t offset, std::byte* to, std::size_t bytes) {
  while (bytes != 0) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(from.address + offset), bytes};
    const ssize_t got = process_vm_readv(from.process, &local, 1, &remote, 1, 0);
    if (got <= 0) {
      return system_error("process_vm_readv from process " + std::to_string(from.process),
                          got < 0 ? errno : EFAULT);
    }
    to += got;
    offset += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace weft
