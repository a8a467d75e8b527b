// gone: errors that say that a rank takes part no more. Internal to the engine.
#pragma once

#include <weft/status.h>

namespace weft {

[[nodiscard]] inline bool is_gone(const Status& status) {
  return status.code() == Code::peer_died || status.code() == Code::peer_left;
}

}  // namespace weft
