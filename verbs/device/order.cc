// Names part by part: each part is a number or one character.
#include <algorithm>

#include "verbs/device/device.h"

namespace weft {
namespace {

constexpr std::string_view kDigits = "0123456789";

// The number at the front, without zeros that lead it; empty: there is none, or it is 0.
std::string_view take_number(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of(kDigits), text.size());
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

bool begins_with_digit(std::string_view text) {
  return !text.empty() && kDigits.find(text.front()) != std::string_view::npos;
}

}  // namespace

bool is_listed_before(std::string_view a, std::string_view b) {
  std::string_view left = a, right = b;
  while (!left.empty() && !right.empty()) {
    if (begins_with_digit(left) && begins_with_digit(right)) {
      const std::string_view one = take_number(left), other = take_number(right);
      if (one.size() != other.size()) return one.size() < other.size();
      if (one != other) return one < other;
    } else {
      if (left.front() != right.front()) return left.front() < right.front();
      left.remove_prefix(1);
      right.remove_prefix(1);
    }
  }
  return left.empty() && right.empty() ? a < b : left.empty();
}

}  // namespace weft
