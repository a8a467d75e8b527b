// number_list: the parser.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "verbs/device/device.h"

namespace weft {

std::vector<int> number_list(std::string_view text) {
  constexpr int kMostNumbers = 1 << 13;  // as Linux counts processors
  std::vector<int> numbers;
  const auto take = [&text](int& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc() && number >= 0;
  };
  for (int first = 0; take(first) && first < kMostNumbers;) {
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take(last)) break;
    }
    const int next = numbers.empty() ? 0 : numbers.back() + 1;
    last = std::min(last, kMostNumbers - 1);
    for (int number = std::max(first, next); number <= last; ++number) numbers.push_back(number);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return numbers;
}

}  // namespace weft
