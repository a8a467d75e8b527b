// The C API: started operations.
#pragma once

#include <weft/c/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// A started operation. It may outlive the context; an operation that was not done when its context
// was closed reports WEFT_CLOSED.
typedef struct weft_handle weft_handle;

// Is called when an operation is done. `text` is the error's sentence, "" if the operation
// succeeded, and valid during the call; weft_last_error_rank() has the rank at fault.
typedef void (*weft_callback)(void* user, weft_code code, const char* text);

// *done := 1 if the operation is done, with or without an error, else 0. Makes progress; never
// blocks.
WEFT_C_API weft_code weft_handle_test(weft_handle* handle, int* done);
// Waits until the operation is done, at most until its deadline (WEFT_DEADLINE_MS), and returns its
// outcome. Waiting again returns the same.
WEFT_C_API weft_code weft_handle_wait(weft_handle* handle);
// The same for at most `timeout_ms` milliseconds, which are not negative. If the operation is not
// done by then, the answer is WEFT_TIMED_OUT; the operation goes on and can be waited for again.
// weft_handle_test() tells this from an operation that has failed by its own deadline.
WEFT_C_API weft_code weft_handle_wait_for(weft_handle* handle, int64_t timeout_ms);
// Calls `callback` once, on the context's completion thread, when the operation is done; at once if
// it is done already. A callback may start operations and wait for them, and close or free the
// context. The callbacks of a context run in turn, so a callback must not wait for what
// another one does. If an error is returned, `callback` is not called. `user` must stay valid until
// the call.
WEFT_C_API weft_code weft_handle_then(weft_handle* handle, weft_callback callback, void* user);
// Frees the handle. The operation goes on, needs its memory until it is done, and its callbacks are
// called.
WEFT_C_API weft_code weft_handle_free(weft_handle* handle);

#ifdef __cplusplus
}
#endif
