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

// A request for an operation on x and y; the caller fills in the rest.
[[nodiscard]] inline weft_request request_of(weft_operation operation, weft_data_type type,
                                             const void* x, size_t x_count, void* y,
                                             size_t y_count) {
  weft_request request{};
  request.size = sizeof(request);
  request.operation = operation;
  request.type = type;
  request.x = x;
  request.x_count = x_count;
  request.y = y;
  request.y_count = y_count;
  return request;
}

}  // namespace weft::c
