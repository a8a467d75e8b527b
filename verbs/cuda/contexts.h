// contexts: CUDA's primary contexts. Internal to the module.
#pragma once

#include "verbs/cuda/driver.h"

namespace weft::cuda {

// The primary context of a GPU, which the CUDA runtime uses, too.
[[nodiscard]] Result<void*> primary_context(const Driver& driver, int number);

}  // namespace weft::cuda
