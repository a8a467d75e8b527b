// ways_so_far: how operations on GPU memory have travelled, for people. Internal to the module.
#pragma once

#include "verbs/base/base.h"

namespace weft {

// An operation began; ok: with device aliases, else why not.
void note_way(const Status& aliases);

}  // namespace weft
