// limits: what this machine could do at best, and how everything is timed.
//
// A measured time of Weft means little without the machine's limit, measured in the same run. The
// limit of a collective is its *floor*: the same combine loop over the same buffers, right after
// their owners rewrote them, on all ranks at once, without the engine. Floors, Weft's operations
// and those of other libraries are timed by the same code, `time_laps`. A ratio between two of them
// therefore compares the operations and not two ways of measuring.
//
// `weft perf` and bench/peers use this module. Nothing in the engine depends on it.
#pragma once

#include "tools/limits/figures.h"
#include "tools/limits/floor.h"
#include "tools/limits/laps.h"
#include "tools/limits/meeting.h"
#include "tools/limits/segments.h"
#include "tools/limits/workload.h"
