// The C API: prepared operations, which run many times with the same arguments. MPI calls them
// persistent: weft_prepare() does for every operation what MPI_Allreduce_init does.
//
//   weft_prepared* step = NULL;
//   weft_request request = {.size = sizeof(request), .operation = WEFT_ALLREDUCE, .type = WEFT_F32,
//                           .x = x, .x_count = n, .y = y, .y_count = n, .op = WEFT_SUM};
//   if (weft_prepare(context, &request, &step) != WEFT_OK) puts(weft_last_error());
//   for (int i = 0; i < steps; ++i) weft_prepared_run(step);
//   weft_prepared_free(step);
#pragma once

#include <weft/c/context.h>
#include <weft/c/handle.h>
#include <weft/c/operations.h>
#include <weft/c/window.h>

#ifdef __cplusplus
extern "C" {
#endif

// A prepared operation. It may outlive its context; later runs are WEFT_CLOSED.
typedef struct weft_prepared weft_prepared;

// Checks the arguments, which are copied, and sets *prepared to an object that the caller frees.
// Until then the memory x and y must stay valid, and stay host or GPU memory as it was. A run uses
// the graph that is set when it begins.
WEFT_C_API weft_code weft_prepare(weft_context* context, const weft_request* request,
                                  weft_prepared** prepared);
// The same for calls of a window with these arguments, of which `how` and `pages` are copied.
WEFT_C_API weft_code weft_window_prepare_put(weft_window* window, void* x, size_t count,
                                             weft_data_type type, const weft_put_options* how,
                                             weft_prepared** prepared);
WEFT_C_API weft_code weft_window_prepare_accumulate(weft_window* window, void* x, size_t count,
                                                    weft_data_type type,
                                                    const weft_put_options* how,
                                                    weft_prepared** prepared);
WEFT_C_API weft_code weft_window_prepare_write(weft_window* window, int32_t to, const void* x,
                                               size_t count, weft_data_type type,
                                               const weft_page* pages, size_t page_count,
                                               size_t page_bytes, int32_t signal,
                                               weft_prepared** prepared);
// Runs the operation to its end, as weft_run() does. Other ranks may run the operation prepared, or
// call it.
WEFT_C_API weft_code weft_prepared_run(weft_prepared* prepared);
// Starts a run, as weft_start() does. WEFT_INVALID_ARGUMENT while the last one is under way.
WEFT_C_API weft_code weft_prepared_start(weft_prepared* prepared, weft_handle** handle);
// Waits for the end of the run that was started last, and returns its outcome; WEFT_OK without one.
WEFT_C_API weft_code weft_prepared_wait(weft_prepared* prepared);
// Frees the object. A run that was started goes on, and needs its memory until it is done.
WEFT_C_API weft_code weft_prepared_free(weft_prepared* prepared);

#ifdef __cplusplus
}
#endif
