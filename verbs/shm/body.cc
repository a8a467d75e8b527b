// The bodies that the interfaces of this process have left, until they are reused.
#include "verbs/shm/body.h"

#include <cstring>

#include "verbs/shm/left.h"

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

}  // namespace

Result<std::byte*> take_body(const Geometry& geometry) {
  const std::size_t bytes = geometry.body_bytes();
  const auto left = Left<LeftBody>::of_process().take(
      [=](const LeftBody& each) { return each.bytes == bytes && !each.is_looked_at(); });
  std::byte* body = left ? left->body : nullptr;
  if (body == nullptr) {
    WEFT_ASSIGN(void* memory, allocate(bytes));
    body = static_cast<std::byte*>(memory);
  }
  std::memset(body, 0, geometry.control_bytes());
  return body;
}

void leave_body(std::byte* body, std::size_t bytes, const Ring* ring) {
  Left<LeftBody>::of_process().add({body, bytes, ring});
}

void forget_ring(const Ring* ring) {
  Left<LeftBody>::of_process().for_each([=](LeftBody& each) {
    if (each.ring == ring) each.ring = nullptr;
  });
}

}  // namespace weft::shm
