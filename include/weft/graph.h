// graph: the logical graphs that ranks talk on, their weights, and their schedules over time.
//
// An edge (j -> i) means that j may send to i. Rank i multiplies the data of j by the edge's weight
// w_ij, and its own data by w_ii. The pull (row-stochastic) weights of a receiver sum to 1; so do
// the push (column-stochastic) weights of a sender. Standard weights satisfy both.
//
// Everything here is a value or a pure function of values. It uses no thread, file, clock or
// environment, gives equal results on every platform, and may be used from any thread. Every rank
// can compute its own part alone. Wrong arguments give a Status that names them. Passing an
// accessor a rank outside 0…size-1 is a bug.
#pragma once

#include <weft/graph/describe.h>
#include <weft/graph/digraph.h>
#include <weft/graph/generators.h>
#include <weft/graph/mixing.h>
#include <weft/graph/names.h>
#include <weft/graph/properties.h>
#include <weft/graph/schedule.h>
#include <weft/graph/weights.h>
#include <weft/graph/without.h>
