// graph: the logical graphs that ranks talk on, their weights, and their schedules over time.
//
// An edge (j -> i) says that j may send to i; its weight w_ij is what i multiplies j's data by, and
// w_ii what it multiplies its own by. Pull (row-stochastic) weights sum to 1 over a receiver, push
// (column-stochastic) weights over a sender; standard ones do both.
//
// Everything here is a value or a pure function of values: no thread, file, clock or environment,
// equal results on every platform, and safe to use from any thread. Every rank can compute its own
// part alone. Wrong arguments are a Status that names them; a rank outside 0…size-1 handed to an
// accessor is a bug.
#pragma once

#include "topology/graph/describe.h"
#include "topology/graph/digraph.h"
#include "topology/graph/draw.h"
#include "topology/graph/generators.h"
#include "topology/graph/mixing.h"
#include "topology/graph/names.h"
#include "topology/graph/properties.h"
#include "topology/graph/schedule.h"
#include "topology/graph/weights.h"
