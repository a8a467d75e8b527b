// handle: started operations.
#include <weft/context.h>

#include <algorithm>
#include <string>

#include "bindings/c/objects.h"

namespace {

using namespace weft::c;
using weft::Status;

}  // namespace

weft_code weft_handle_test(weft_handle* handle, int* done) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    WEFT_RETURN_IF_ERROR(check_not_null(done, "done"));
    *done = object->handle.test() ? 1 : 0;
    return {};
  });
}

weft_code weft_handle_wait(weft_handle* handle) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    return object->handle.wait();
  });
}

weft_code weft_handle_wait_for(weft_handle* handle, int64_t timeout_ms) {
  return call(__func__, [&]() -> Status {
    // An operation's own deadline is a day at most.
    constexpr int64_t kLongestMs = 2 * 86'400'000LL;
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    if (timeout_ms < 0)
      return argument_error("timeout_ms", "is " + std::to_string(timeout_ms) + ", below 0");
    if (object->handle.wait_for(std::min(timeout_ms, kLongestMs) * 1'000'000))
      return object->handle.wait();
    return call_error(weft::Code::timed_out,
                      "the operation is not done after " + std::to_string(timeout_ms) + " ms");
  });
}

weft_code weft_handle_then(weft_handle* handle, weft_callback callback, void* user) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    if (callback == nullptr) return argument_error("callback", "is NULL");
    return object->handle.then([callback, user](const Status& status) {
      const weft_code code = remember(status);  // for weft_last_error_rank() in the callback
      const std::string text(status.text());
      callback(user, code, text.c_str());
    });
  });
}

weft_code weft_handle_free(weft_handle* handle) {
  return call(__func__, [&] { return release(handle, "handle"); });
}
