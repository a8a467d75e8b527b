// Bodies that were left, of all interfaces of the process.
#include "verbs/shm/body.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

namespace weft::shm {
namespace {

// The list of a forked child names bodies that its parent uses.
struct Left {
  std::mutex mutex;
  std::vector<LeftBody> bodies;
  pid_t process = getpid();
};

Left& left() {
  static Left all;
  return all;
}

bool is_looked_at(const LeftBody& left) {
  if (left.peer_heap == nullptr) return false;
  if (left.peer_hall->closed.load(std::memory_order_acquire) != 0) return false;
  return kill(left.peer_process, 0) == 0 || errno != ESRCH;
}

// A heap that is not needed for its hall any more need not stay mapped here.
void forget_heaps(std::vector<LeftBody>& bodies) {
  for (LeftBody& body : bodies) {
    if (!is_looked_at(body)) body.peer_heap.reset();
  }
}

std::byte* take_left(std::size_t bytes) {
  Left& all = left();
  const std::lock_guard lock(all.mutex);
  if (all.process != getpid()) return nullptr;
  forget_heaps(all.bodies);
  const auto fits = std::ranges::find_if(all.bodies, [=](const LeftBody& body) {
    return body.bytes == bytes && body.peer_heap == nullptr;
  });
  if (fits == all.bodies.end()) return nullptr;
  std::byte* body = fits->body;
  *fits = std::move(all.bodies.back());
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

void leave_body(LeftBody body) {
  Left& all = left();
  const std::lock_guard lock(all.mutex);
  if (all.process != getpid()) return;
  all.bodies.push_back(std::move(body));
  forget_heaps(all.bodies);
}

}  // namespace weft::shm
