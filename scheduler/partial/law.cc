// law: names.
#include "scheduler/partial/law.h"

#include <fmt/format.h>
#include <weft/macros.h>

#include <charconv>

namespace weft {

Result<GroupLaw> group_law(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const bool has_size = colon != std::string_view::npos;
  GroupLaw law;
  if (kind == "random") {
    law.kind = GroupLaw::Kind::random;
  } else if (kind == "smart") {
    law.kind = GroupLaw::Kind::smart;
  } else if (kind == "pairs" && !has_size) {
    law = {.kind = GroupLaw::Kind::random, .group_size = 2};
  } else if (kind == "static" && !has_size) {
    law.kind = GroupLaw::Kind::scheduled;
  } else {
    return Status(Code::invalid_argument,
                  fmt::format("unknown law of groups '{}'; known are: random, random:SIZE, pairs, "
                              "smart, smart:SIZE, static",
                              text));
  }
  if (has_size) {
    const std::string_view size = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(size.begin(), size.end(), law.group_size);
    if (error != std::errc{} || end != size.end()) {
      return Status(Code::invalid_argument,
                    fmt::format("law of groups '{}': '{}' is no group size", text, size));
    }
  }
  WEFT_RETURN_IF_ERROR(check(law));
  return law;
}

std::string name(const GroupLaw& law) {
  if (law.kind == GroupLaw::Kind::scheduled) return "static";
  if (law.kind == GroupLaw::Kind::smart) return fmt::format("smart:{}", law.group_size);
  return law.group_size == 2 ? "pairs" : fmt::format("random:{}", law.group_size);
}

Status check(const GroupLaw& law) {
  if (law.group_size < 2 || law.group_size > kMostGroupSize) {
    return Status(Code::invalid_argument, fmt::format("group size {}: a group has 2 to {} workers",
                                                      law.group_size, kMostGroupSize));
  }
  if (law.threshold < 2) {
    return Status(Code::invalid_argument,
                  fmt::format("threshold {}: a slow worker takes at least 2 iterations of others",
                              law.threshold));
  }
  return {};
}

}  // namespace weft
