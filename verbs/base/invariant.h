// invariant(): what a bug in Weft breaks. It is declared with the public headers, whose inline
// functions use it.
#pragma once

#include <weft/invariant.h>
