// What arrived, where most transports have it: in host memory.
#include <cstring>

#include "verbs/transport/transport.h"

namespace weft {

Status Endpoint::copy_payload(std::span<std::byte> to, const Notice& notice) {
  if (!to.empty()) std::memcpy(to.data(), notice.payload, to.size());
  return {};
}

}  // namespace weft
