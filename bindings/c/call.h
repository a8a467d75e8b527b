// call: the frame of every function of the C API. It names the function for messages, catches what
// the C++ side throws, and keeps the error for weft_last_error().
//
//   weft_code weft_graph_size(const weft_graph* graph, int32_t* size) {
//     return call(__func__, [&]() -> Status { … });
//   }
#pragma once

#include <weft/c/base.h>
#include <weft/macros.h>
#include <weft/status.h>

#include <string>
#include <string_view>

namespace weft::c {

// While it lives, this thread is in a function of the C API. Calls nest: a callback may make them.
class FunctionName {
 public:
  explicit FunctionName(const char* name);
  FunctionName(const FunctionName&) = delete;
  FunctionName& operator=(const FunctionName&) = delete;
  ~FunctionName();

 private:
  const char* const before_;
};

// An invalid_argument that begins with the function of this thread: "weft_send: x is NULL".
[[nodiscard]] Status argument_error(std::string_view argument, std::string_view problem);
// The same for any code: "weft_rank: the context was closed".
[[nodiscard]] Status call_error(Code code, std::string_view text);
Status check_not_null(const void* pointer, std::string_view argument);

// Makes this status the last error of this thread, unless it is ok. Never fails.
weft_code remember(const Status& status) noexcept;
// The same for the exception that is being handled.
weft_code remember_exception() noexcept;

// Runs the body, which returns a Status, and turns its outcome into a code.
template <typename Body>
weft_code call(const char* function, Body&& body) noexcept {
  const FunctionName name(function);
  try {
    return remember(body());
  } catch (...) {
    return remember_exception();
  }
}

// *text := a copy that weft_string_free() frees.
Status give_string(std::string_view from, char** text);

}  // namespace weft::c
