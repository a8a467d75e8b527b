// feedback: what compression has taken from tensors.
#include <weft/feedback.h>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"

namespace {

using namespace weft::c;
using weft::ErrorFeedback;
using weft::Status;

}  // namespace

weft_code weft_feedback_create(weft_feedback** feedback) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(feedback, "feedback"));
    give(std::make_shared<ErrorFeedback>(), feedback);
    return {};
  });
}

weft_code weft_feedback_residual(weft_feedback* feedback, float* residual, size_t capacity,
                                 size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(feedback, "feedback"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    WEFT_ASSIGN(const std::vector<float> found, object->residual());
    return give_array(std::span(found), "residual", residual, capacity, count);
  });
}

weft_code weft_feedback_clear(weft_feedback* feedback) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(feedback, "feedback"));
    return object->clear();
  });
}

weft_code weft_feedback_free(weft_feedback* feedback) {
  return call(__func__, [&] { return release(feedback, "feedback"); });
}
