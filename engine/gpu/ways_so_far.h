// ways_so_far: how operations on memory of GPUs have travelled, for people. Internal to the module.
#pragma once

#include "verbs/base/base.h"

namespace weft {

// An operation began; ok: with stand-ins, else why not.
void note_way(const Status& stand_ins);

}  // namespace weft
