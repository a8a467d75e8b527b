// own_window: a window whose tensor is memory of the window's own. Other ranks may read and write that
// memory after the object that made the window has gone, so the context keeps it. Internal to the module.
#pragma once

#include <weft/context.h>

#include <cstddef>
#include <string>

namespace weft {

// On the context's graph; tensor and slots are zeros. Collective.
[[nodiscard]] Result<Window> own_window(Context& context, std::size_t count, DataType type,
                                        const std::string& name);

}  // namespace weft
