// The C API of Weft: everything of the C++ API (weft/weft.h) in C11, and in C++ as well. The binary
// interface is stable: opaque handles, fixed-width numbers, and structs that begin with their size.
//
//   weft_context* context = NULL;
//   if (weft_context_from_environment(&context) != WEFT_OK) puts(weft_last_error());
//   weft_neighbor_allreduce(context, x, y, n, WEFT_F32, NULL);   // under `weft run`, mpirun, …
//   weft_context_free(context);
//
// Errors. A function that can fail returns a weft_code. After a failure, weft_last_error() has the
// sentence, and weft_last_error_rank() the rank at fault. A function that failed has set the object
// that it should have made to NULL. NULL for an argument that is needed, a handle that was freed,
// or a handle of another type is WEFT_INVALID_ARGUMENT. A context after weft_context_close() is
// WEFT_CLOSED. The text names the function and the argument.
//
// Handles (weft_context, weft_handle, weft_graph, weft_schedule, weft_config, weft_store,
// weft_window, weft_named, weft_prepared, weft_feedback, weft_strategy, weft_gradient_exchange, and those
// of weft/c/algorithms.h). The caller frees each with its `…_free` function, which accepts NULL. A value
// is never used twice, so a handle that was freed never becomes that of another object. Objects may be
// freed in any order: a context keeps its store and its graph.
//
// Structs. The first member of a struct that may grow is its size in bytes, which the caller sets:
//
//   weft_request request = {.size = sizeof(request), .operation = WEFT_BARRIER};
//
// The caller sets the other members to zero or to a value; zero always means the default. A struct
// of an older version, which is smaller, is accepted. A larger one, of a newer version, is accepted
// if what this version does not know is zero. Anything else is WEFT_INVALID_ARGUMENT.
//
// Threads. Any thread may call any function. A call that is running on an object keeps it, also if
// another thread frees the handle meanwhile.
//
// Operations: weft/c/operations.h lists them, and says who owns the memory until they are done.
// Operations that are prepared once and run many times: weft/c/prepared.h. Windows:
// weft/c/window.h. Operations by name: weft/c/named.h. Algorithms on top of windows:
// weft/c/algorithms.h. Gradients that travel in pieces: weft/c/gradient_exchange.h. Ways to train one
// model together, by name: weft/c/strategies.h.
#pragma once

#include <weft/c/algorithms.h>
#include <weft/c/base.h>
#include <weft/c/config.h>
#include <weft/c/context.h>
#include <weft/c/gradient_exchange.h>
#include <weft/c/graph.h>
#include <weft/c/handle.h>
#include <weft/c/log.h>
#include <weft/c/memory.h>
#include <weft/c/named.h>
#include <weft/c/operations.h>
#include <weft/c/prepared.h>
#include <weft/c/schedule.h>
#include <weft/c/store.h>
#include <weft/c/strategies.h>
#include <weft/c/types.h>
#include <weft/c/window.h>
