// What readers leave out, gathered by reason.
#include "topology/hardware/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weft::hardware {
namespace {

constexpr std::size_t kMostNamed = 8;  // of one reason; the rest is counted

}  // namespace

void LeftOut::add(std::string_view reason, std::string thing) {
  auto found = std::ranges::find(reasons_, reason, &Reason::text);
  if (found == reasons_.end()) {
    reasons_.push_back({std::string(reason), {}, 0});
    found = reasons_.end() - 1;
  }
  if (found->count++ < kMostNamed) found->things.push_back(std::move(thing));
}

std::vector<std::string> LeftOut::phrases() const {
  std::vector<std::string> phrases;
  for (const Reason& reason : reasons_) {
    const std::size_t more = reason.count - reason.things.size();
    phrases.push_back(fmt::format("{}{} ({})", fmt::join(reason.things, ", "),
                                  more == 0 ? "" : fmt::format(" and {} more", more), reason.text));
  }
  return phrases;
}

}  // namespace weft::hardware
