// host_models: algorithms that work on their model in place take host memory. Internal to the
// module.
#pragma once

#include <weft/context.h>

#include <string_view>

namespace weft {

// Collective: ok if the memory is the host's on all ranks. Else every rank has the error, and none is left
// waiting for the others.
[[nodiscard]] Status check_host_models(Context& context, std::string_view what, const void* model);

}  // namespace weft
