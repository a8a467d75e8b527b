// number_list: lists of cores or NUMA nodes in the kernel's form.
#pragma once

#include <string_view>
#include <vector>

namespace weft {

// "0-3,8": 0, 1, 2, 3, 8. Upwards; it ends at the first mistake, and at 8192, which is as far as Linux counts.
[[nodiscard]] std::vector<int> number_list(std::string_view text);

}  // namespace weft
