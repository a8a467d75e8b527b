// run: how every operation of the C API runs or starts.
#pragma once

#include <weft/c.h>

namespace weft::c {

// Runs what the request asks for until it is done. `function` is the one that the program has
// called.
weft_code run(const char* function, weft_context* context, const weft_request& request);
// Starts it; *handle is a new handle, or NULL after an error.
weft_code start(const char* function, weft_context* context, const weft_request& request,
                weft_handle** handle);

}  // namespace weft::c
