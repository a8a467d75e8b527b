// own_window: windows of algorithms. The tensor of one may be memory of the window's own: other ranks may read
// and write it after the object that made the window has gone, so the context keeps it. Internal to the
// module.
#pragma once

#include <weft/context.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace weft {

// On the context's graph; tensor and slots are zeros. Behind the tensor lie `more` elements, which are kept as long.
// Collective.
[[nodiscard]] Result<Window> own_window(Context& context, std::size_t count, DataType type,
                                        const std::string& name, std::size_t more = 0);

// The result of make(). If that is an error, which all ranks have, the windows that it has made are freed.
template <typename Make>
auto or_free_windows(Context& context, const Make& make) -> decltype(make()) {
  const std::vector<std::string> before = context.window_names();
  auto made = make();
  if (made.ok()) return made;
  for (const std::string& name : context.window_names())
    if (!std::ranges::binary_search(before, name)) (void)context.win_free(name);
  return made;
}

}  // namespace weft
