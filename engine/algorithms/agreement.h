// agreement: ranks that give the same arguments, before they make something together. Internal to the
// engine.
#pragma once

#include <weft/context.h>

#include <string>
#include <string_view>

namespace weft {

// What the ranks must give alike: the name of a method, or what else comes first in a message, and the
// rest, for people. Messages have the beginning of long texts.
struct CommonArguments {
  std::string name;  // "ring", with its quotes
  std::string rest;
};

// Collective. Every rank learns what the others want, so all have the same verdict and none waits for
// another: `own` if it is an error, else the error of another rank with its code, else a mismatch that says what
// differs, with `title` before it.
[[nodiscard]] Status agree(Context& context, std::string_view title, const CommonArguments& mine,
                           const Status& own);

}  // namespace weft
