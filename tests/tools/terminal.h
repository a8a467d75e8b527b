// Runs the `weft` command in a terminal, whose user interrupts it.
#pragma once

#include <string>

#include "tests/tools/command.h"

namespace weft {

// As run_weft(), with all output in Ran::out. Once the output has `word`, the user types Ctrl-C.
[[nodiscard]] Ran interrupt_weft(const std::string& arguments, const std::string& word);

}  // namespace weft
