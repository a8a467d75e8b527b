// Runs a test once for every instruction set that was compiled in and that this CPU has.
#pragma once

#include <gtest/gtest.h>

#include "engine/kernels/targets.h"
#include "hwy/targets.h"

namespace weft {

template <class Function>
void for_each_instruction_set(Function function) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    function();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace weft
