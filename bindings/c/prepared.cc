// prepared: prepared operations.
#include <weft/c/prepared.h>

#include "bindings/c/objects.h"
#include "bindings/c/request.h"
#include "bindings/c/structs.h"

namespace {

using namespace weft::c;
using weft::Status;

}  // namespace

weft_code weft_prepare(weft_context* context, const weft_request* request,
                       weft_prepared** prepared) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(prepared, "prepared"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    weft_request known{};
    WEFT_RETURN_IF_ERROR(read_struct(request, "request", known));
    Converted converted;
    WEFT_RETURN_IF_ERROR(convert(known, converted));
    WEFT_ASSIGN(weft::Prepared made, object->context->prepare(converted.request));
    give(std::make_shared<weft::Prepared>(std::move(made)), prepared);
    return {};
  });
}

weft_code weft_prepared_run(weft_prepared* prepared) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(prepared, "prepared"));
    return object->run();
  });
}

weft_code weft_prepared_start(weft_prepared* prepared, weft_handle** handle) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(handle, "handle"));
    WEFT_ASSIGN(const auto object, object_of(prepared, "prepared"));
    return give_started(handle, [&] { return object->start(); });
  });
}

weft_code weft_prepared_wait(weft_prepared* prepared) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(prepared, "prepared"));
    return object->wait();
  });
}

weft_code weft_prepared_free(weft_prepared* prepared) {
  return call(__func__, [&] { return release(prepared, "prepared"); });
}
