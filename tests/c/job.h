// job: ranks that are threads of this program, or processes of the launcher.
#pragma once

#include "tests/c/check.h"

typedef void (*rank_function)(weft_context* context);

// Runs the function once for each of n ranks, each in a thread with a context of its own, which is
// freed afterwards. The function may have closed it. `settings` has names and values of variables
// in turn and ends with NULL; NULL: defaults. WEFT_TRANSPORTS of the environment is taken over.
void run_ranks(int n, const char* const* settings, rank_function function);

// main() of a test of all ranks: with an argument those are that many threads of this program, without one
// the processes of the launcher (`weft run -n 4 -- named_test`).
int run_test(int argc, char** argv, rank_function function);
