// algorithms: push-sum and D-PSGD, which follow a schedule.
#include "bindings/c/algorithms.h"

namespace {

using namespace weft::c;
using weft::DataType;
using weft::DPsgd;
using weft::Output;
using weft::PushSum;
using weft::Status;

template <typename Use>
weft_code on(const char* function, weft_push_sum* push_sum, Use&& use) {
  return use_algorithm(function, push_sum, "push_sum", true, std::forward<Use>(use));
}
template <typename Use>
weft_code on(const char* function, weft_dpsgd* dpsgd, Use&& use) {
  return use_algorithm(function, dpsgd, "dpsgd", true, std::forward<Use>(use));
}

}  // namespace

weft_code weft_push_sum_create(weft_context* context, const weft_schedule* schedule, void* x,
                               size_t count, weft_data_type type,
                               const weft_push_sum_options* options, weft_push_sum** push_sum) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(push_sum, "push_sum"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_ASSIGN(const auto steps, object_of(schedule, "schedule"));
    WEFT_RETURN_IF_ERROR(check_type(type));
    weft::PushSumOptions how;
    if (options != nullptr) {
      weft_push_sum_options from{};
      WEFT_RETURN_IF_ERROR(read_struct(options, "options", from));
      how.name = name_or(from.name, how.name);
      how.lag = from.lag;
      how.stream = stream_of(from.stream);
    }
    WEFT_ASSIGN(PushSum made, PushSum::create(*object->context, *steps,
                                              {x, count, static_cast<DataType>(type)}, how));
    give(std::make_shared<Kept<PushSum>>(object, std::move(made)), push_sum);
    return {};
  });
}
weft_code weft_push_sum_free(weft_push_sum* push_sum) {
  return call(__func__, [&] { return release(push_sum, "push_sum"); });
}
weft_code weft_push_sum_begin_step(weft_push_sum* push_sum) {
  return on(__func__, push_sum, [](PushSum& it) { return it.begin_step(); });
}
weft_code weft_push_sum_end_step(weft_push_sum* push_sum, int64_t patience_ns) {
  return on(__func__, push_sum, [&](PushSum& it) { return it.end_step(patience_ns); });
}
weft_code weft_push_sum_step(weft_push_sum* push_sum) {
  return on(__func__, push_sum, [](PushSum& it) { return it.step(); });
}
weft_code weft_push_sum_debias(weft_push_sum* push_sum, void* z, size_t count,
                               weft_data_type type) {
  return on(__func__, push_sum, [&](PushSum& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_type(type));
    return it.debias({z, count, static_cast<DataType>(type)});
  });
}
weft_code weft_push_sum_weight(weft_push_sum* push_sum, double* weight) {
  return on(__func__, push_sum, [&](PushSum& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(weight, "weight"));
    WEFT_ASSIGN(*weight, it.weight());
    return {};
  });
}
weft_code weft_push_sum_steps(weft_push_sum* push_sum, uint64_t* steps) {
  return on(__func__, push_sum, [&](PushSum& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(steps, "steps"));
    *steps = it.steps();
    return {};
  });
}
weft_code weft_push_sum_settle(weft_push_sum* push_sum) {
  return on(__func__, push_sum, [](PushSum& it) { return it.settle(); });
}
weft_code weft_push_sum_end(weft_push_sum* push_sum) {
  return on(__func__, push_sum, [](PushSum& it) { return it.end(); });
}

weft_code weft_dpsgd_create(weft_context* context, const weft_schedule* schedule,
                            weft_dpsgd** dpsgd) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(dpsgd, "dpsgd"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_ASSIGN(const auto steps, object_of(schedule, "schedule"));
    WEFT_ASSIGN(DPsgd made, DPsgd::create(*object->context, *steps));
    give(std::make_shared<Kept<DPsgd>>(object, std::move(made)), dpsgd);
    return {};
  });
}
weft_code weft_dpsgd_free(weft_dpsgd* dpsgd) {
  return call(__func__, [&] { return release(dpsgd, "dpsgd"); });
}
weft_code weft_dpsgd_step(weft_dpsgd* dpsgd, const void* x, void* y, size_t count,
                          weft_data_type type) {
  return on(__func__, dpsgd, [&](DPsgd& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_type(type));
    const auto of = static_cast<DataType>(type);
    return it.step({x, count, of}, {y, count, of});
  });
}
weft_code weft_dpsgd_steps(weft_dpsgd* dpsgd, uint64_t* steps) {
  return on(__func__, dpsgd, [&](DPsgd& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(steps, "steps"));
    *steps = it.steps();
    return {};
  });
}
