// limits: what this machine could do at best, and the one way in which everything is timed.
//
// A figure of Weft's is only worth something next to the machine's limit, measured in the same run.
// The limit of a collective is its *floor*: the same combine loop over the same buffers, right
// after their owners rewrote them, all ranks at once, with nothing of the engine in between.
// Floors, Weft's own operations and other libraries' are timed by the same code, `time_laps`, so a
// ratio between two of them compares the operations and not two ways of measuring.
//
// Used by `weft perf` and by bench/peers; nothing of the engine depends on it.
#pragma once

#include "engine/limits/figures.h"
#include "engine/limits/floor.h"
#include "engine/limits/laps.h"
#include "engine/limits/meeting.h"
#include "engine/limits/segments.h"
#include "engine/limits/workload.h"
