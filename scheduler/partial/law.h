// law: how groups are chosen. Internal to the module; others include partial.h.
#pragma once

#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

inline constexpr int kMostGroupSize = 1024;  // so that a group can be named in a small message

struct GroupLaw {
  enum class Kind : std::uint8_t {
    random,     // each request makes a group of its worker and random others (section 4.1)
    smart,      // all idle workers are divided at once, by machine and speed (section 5)
    scheduled,  // a pure function of iteration and rank (section 4.2); no generator
  };
  Kind kind = Kind::smart;
  // Workers of a group, at least 2. Smart groups of a whole machine have as many as the machine; and
  // where a single worker is left over, a smart group has one more.
  int group_size = 3;
  // Smart: a worker is slow if others compute at least so many iterations while it computes one. At
  // least 2.
  int threshold = 2;
};

// "random", "random:5" and "smart:4" with a group size, "pairs" for "random:2" (AD-PSGD's groups),
// "static". invalid_argument names what cannot be read, and the known laws.
[[nodiscard]] Result<GroupLaw> group_law(std::string_view text);
// The text from which group_law() makes the same kind and group size.
[[nodiscard]] std::string name(const GroupLaw& law);
// invalid_argument if the group size or the threshold has no meaning.
[[nodiscard]] Status check(const GroupLaw& law);

}  // namespace weft
