// The bodies that the interfaces of this process have left, until they are reused.
#include "verbs/shm/body.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace weft::shm {
namespace {

struct LeftBody {
  std::byte* body;
  std::size_t bytes;
  const Ring* ring;  // nullptr: it was left, and given back

  [[nodiscard]] bool is_looked_at() const {
    return ring != nullptr && ring->left.load(std::memory_order_acquire) == 0;
  }
};

// The bodies that were left. A forked child does not use its copy of the list, because its parent
// uses the bodies.
struct Left {
  std::mutex mutex;
  std::vector<LeftBody> bodies;
  pid_t process = getpid();
};

Left& left() {
  // Never destroyed: a static context may be the last that uses it.
  static Left& all = *new Left;
  return all;
}

std::byte* take_left(std::size_t bytes) {
  Left& all = left();
  const std::lock_guard lock(all.mutex);
  if (all.process != getpid()) return nullptr;
  const auto fits = std::ranges::find_if(all.bodies, [=](const LeftBody& body) {
    return body.bytes == bytes && !body.is_looked_at();
  });
  if (fits == all.bodies.end()) return nullptr;
  std::byte* body = fits->body;
  *fits = all.bodies.back();
  all.bodies.pop_back();
  return body;
}

}  // namespace

Result<std::byte*> take_body(const Geometry& geometry) {
  std::byte* body = take_left(geometry.body_bytes());
  if (body == nullptr) {
    WEFT_ASSIGN(void* memory, allocate(geometry.body_bytes()));
    body = static_cast<std::byte*>(memory);
  }
  std::memset(body, 0, geometry.control_bytes());
  return body;
}

void leave_body(std::byte* body, std::size_t bytes, const Ring* ring) {
  Left& all = left();
  const std::lock_guard lock(all.mutex);
  if (all.process == getpid()) all.bodies.push_back({body, bytes, ring});
}

void forget_ring(const Ring* ring) {
  Left& all = left();
  const std::lock_guard lock(all.mutex);
  for (LeftBody& body : all.bodies)
    if (body.ring == ring) body.ring = nullptr;
}

}  // namespace weft::shm
