// algorithms: what the handles of algorithms stand for, and how a call gets at them.
#pragma once

#include <weft/algorithms.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/objects.h"
#include "bindings/c/request.h"
#include "bindings/c/structs.h"

namespace weft::c {

// An algorithm and its context, which must be open while the algorithm is used.
template <typename Algorithm>
struct Kept {
  Kept(const std::shared_ptr<ContextObject>& on, Algorithm made)
      : context(on), algorithm(std::move(made)) {}
  const std::weak_ptr<ContextObject> context;
  std::mutex mutex;  // one call at a time, where the algorithm needs that
  Algorithm algorithm;
};

template <>
struct Of<weft_push_sum> {
  using Object = Kept<PushSum>;
  static constexpr Kind kKind = Kind::push_sum;
  static constexpr const char* kName = "weft_push_sum";
};
template <>
struct Of<weft_dpsgd> {
  using Object = Kept<DPsgd>;
  static constexpr Kind kKind = Kind::dpsgd;
  static constexpr const char* kName = "weft_dpsgd";
};
template <>
struct Of<weft_ad_psgd> {
  using Object = Kept<AdPsgd>;
  static constexpr Kind kKind = Kind::ad_psgd;
  static constexpr const char* kName = "weft_ad_psgd";
};
template <>
struct Of<weft_partial_allreduce> {
  using Object = Kept<PartialAllreduce>;
  static constexpr Kind kKind = Kind::partial_allreduce;
  static constexpr const char* kName = "weft_partial_allreduce";
};
template <>
struct Of<weft_bounded_staleness> {
  using Object = Kept<BoundedStaleness>;
  static constexpr Kind kKind = Kind::bounded_staleness;
  static constexpr const char* kName = "weft_bounded_staleness";
};

// What every function on an algorithm does: finds it, and calls `use` on it and its context while
// that is open. `is_alone`: no other call on it meanwhile.
template <typename Shown, typename Use>
weft_code use_kept(const char* function, Shown* handle, const char* argument, bool is_alone,
                   Use&& use) {
  return call(function, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(handle, argument));
    const std::shared_ptr<ContextObject> context = object->context.lock();
    if (context == nullptr) {
      return call_error(Code::closed, std::string("the context of ") + argument + " was closed");
    }
    if (!is_alone) return use(*object, *context);
    const std::lock_guard lock(object->mutex);
    return use(*object, *context);
  });
}
template <typename Shown, typename Use>
weft_code use_algorithm(const char* function, Shown* handle, const char* argument, bool is_alone,
                        Use&& use) {
  return use_kept(function, handle, argument, is_alone,
                  [&](auto& kept, ContextObject&) { return use(kept.algorithm); });
}

// A number of options that counts only if its flag is set.
template <typename Number>
Status read_flagged(const std::string& member, std::int32_t has, Number value,
                    std::optional<Number>& to) {
  const std::string flag = "options->has_" + member;
  WEFT_RETURN_IF_ERROR(check_flag(flag.c_str(), has));
  if (has == 0 && value != 0) {
    return argument_error("options->" + member, "is set, but " + flag + " is 0");
  }
  if (has != 0) to = value;
  return {};
}

inline std::string name_or(const char* given, std::string usual) {
  return given == nullptr ? std::move(usual) : std::string(given);
}

}  // namespace weft::c
