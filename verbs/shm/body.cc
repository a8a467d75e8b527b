// The bodies that the interfaces of this process have left, until they are reused.
#include "verbs/shm/body.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "verbs/shm/left.h"

namespace weft::shm {
namespace {

struct LeftBody {
  std::byte* body;
  std::size_t bytes;
  const Ring* ring;  // nullptr: it was left, and given back
  pid_t reader;

  [[nodiscard]] bool is_looked_at() const {
    return ring != nullptr && ring->left.load(std::memory_order_acquire) == 0;
  }
};

// If the number was given to another process, this is false, and only memory is lost.
bool has_ended(pid_t process) {
  if (process <= 0 || process == getpid()) return false;
  const Fd life(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!life.valid()) return errno == ESRCH;
  pollfd end{life.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

std::optional<LeftBody> take_left(std::size_t bytes) {
  auto& all = Left<LeftBody>::of_process();
  const auto is_free = [=](const LeftBody& each) {
    return each.bytes == bytes && !each.is_looked_at();
  };
  if (auto left = all.take(is_free)) return left;
  all.for_each([](LeftBody& each) {
    if (each.is_looked_at() && has_ended(each.reader)) each.ring = nullptr;
  });
  return all.take(is_free);
}

}  // namespace

Result<std::byte*> take_body(const Geometry& geometry) {
  const std::size_t bytes = geometry.body_bytes();
  const std::optional<LeftBody> left = take_left(bytes);
  std::byte* body = left ? left->body : nullptr;
  if (body == nullptr) {
    WEFT_ASSIGN(void* memory, allocate(bytes));
    body = static_cast<std::byte*>(memory);
  }
  std::memset(body, 0, geometry.control_bytes());
  return body;
}

void leave_body(std::byte* body, std::size_t bytes, const Ring* ring, pid_t reader) {
  Left<LeftBody>::of_process().add({body, bytes, ring, reader});
}

void forget_ring(const Ring* ring) {
  Left<LeftBody>::of_process().for_each([=](LeftBody& each) {
    if (each.ring == ring) each.ring = nullptr;
  });
}

}  // namespace weft::shm
