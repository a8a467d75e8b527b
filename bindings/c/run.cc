// run: see the header; and the two functions that take an operation as a value.
#include "bindings/c/run.h"

#include <weft/context.h>

#include <memory>

#include "bindings/c/objects.h"
#include "bindings/c/request.h"
#include "bindings/c/structs.h"

namespace weft::c {
namespace {

Status run_checked(weft_context* context, const weft_request& request) {
  WEFT_ASSIGN(const auto object, object_of(context, "context"));
  Converted converted;
  WEFT_RETURN_IF_ERROR(convert(request, converted));
  return object->context->run(converted.request);
}

Status start_checked(weft_context* context, const weft_request& request, weft_handle** handle) {
  WEFT_ASSIGN(const auto object, object_of(context, "context"));
  Converted converted;
  WEFT_RETURN_IF_ERROR(convert(request, converted));
  return give_started(handle, [&] { return object->context->start(converted.request); });
}

}  // namespace

weft_code run(const char* function, weft_context* context, const weft_request& request) {
  return call(function, [&] { return run_checked(context, request); });
}

weft_code start(const char* function, weft_context* context, const weft_request& request,
                weft_handle** handle) {
  return call(function, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(handle, "handle"));
    return start_checked(context, request, handle);
  });
}

}  // namespace weft::c

weft_code weft_run(weft_context* context, const weft_request* request) {
  return weft::c::call(__func__, [&]() -> weft::Status {
    weft_request known{};
    WEFT_RETURN_IF_ERROR(weft::c::read_struct(request, "request", known));
    return weft::c::run_checked(context, known);
  });
}

weft_code weft_start(weft_context* context, const weft_request* request, weft_handle** handle) {
  return weft::c::call(__func__, [&]() -> weft::Status {
    WEFT_RETURN_IF_ERROR(weft::c::check_result(handle, "handle"));
    weft_request known{};
    WEFT_RETURN_IF_ERROR(weft::c::read_struct(request, "request", known));
    return weft::c::start_checked(context, known, handle);
  });
}
