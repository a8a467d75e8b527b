// algorithms_free: AD-PSGD and bounded staleness, in which ranks go at their own speed.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bindings/c/algorithms.h"
#include "bindings/c/arrays.h"

namespace {

using namespace weft::c;
using weft::AdPsgd;
using weft::BoundedStaleness;
using weft::DataType;
using weft::Rank;
using weft::Result;
using weft::Status;

template <typename Use>
weft_code on(const char* function, weft_ad_psgd* ad_psgd, Use&& use) {
  return use_algorithm(function, ad_psgd, "ad_psgd", false, std::forward<Use>(use));
}
template <typename Use>
weft_code on(const char* function, weft_bounded_staleness* staleness, Use&& use) {
  return use_algorithm(function, staleness, "staleness", true, std::forward<Use>(use));
}

}  // namespace

weft_code weft_ad_psgd_create(weft_context* context, void* model, size_t count, weft_data_type type,
                              const weft_ad_psgd_options* options, weft_ad_psgd** ad_psgd) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(ad_psgd, "ad_psgd"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_type(type));
    weft::AdPsgdOptions how;
    if (options != nullptr) {
      weft_ad_psgd_options from{};
      WEFT_RETURN_IF_ERROR(read_struct(options, "options", from));
      how.name = name_or(from.name, how.name);
      if (from.seed != 0) how.seed = from.seed;
      how.stream = stream_of(from.stream);
    }
    WEFT_ASSIGN(AdPsgd made,
                AdPsgd::create(*object->context, {model, count, static_cast<DataType>(type)}, how));
    give(std::make_shared<Kept<AdPsgd>>(object, std::move(made)), ad_psgd);
    return {};
  });
}
weft_code weft_ad_psgd_free(weft_ad_psgd* ad_psgd) {
  return call(__func__, [&] { return release(ad_psgd, "ad_psgd"); });
}
weft_code weft_ad_psgd_average_with(weft_ad_psgd* ad_psgd, int32_t peer) {
  return on(__func__, ad_psgd, [&](AdPsgd& it) { return it.average_with(peer); });
}
weft_code weft_ad_psgd_average(weft_ad_psgd* ad_psgd, int32_t* peer) {
  return on(__func__, ad_psgd, [&](AdPsgd& it) -> Status {
    WEFT_ASSIGN(const Rank with, it.average());
    if (peer != nullptr) *peer = with;
    return {};
  });
}
weft_code weft_ad_psgd_update(weft_ad_psgd* ad_psgd, void (*change)(void* argument),
                              void* argument) {
  return on(__func__, ad_psgd, [&](AdPsgd& it) -> Status {
    if (change == nullptr) return argument_error("change", "is NULL");
    return it.update([&] { change(argument); });
  });
}
weft_code weft_ad_psgd_read(weft_ad_psgd* ad_psgd, void* y, size_t count, weft_data_type type) {
  return on(__func__, ad_psgd, [&](AdPsgd& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_type(type));
    return it.read({y, count, static_cast<DataType>(type)});
  });
}
weft_code weft_ad_psgd_end(weft_ad_psgd* ad_psgd) {
  return on(__func__, ad_psgd, [](AdPsgd& it) { return it.end(); });
}

weft_code weft_bounded_staleness_create(weft_context* context, void* x, size_t count,
                                        weft_data_type type,
                                        const weft_bounded_staleness_options* options,
                                        weft_bounded_staleness** staleness) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(staleness, "staleness"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_type(type));
    weft::BoundedStalenessOptions how;
    if (options != nullptr) {
      weft_bounded_staleness_options from{};
      WEFT_RETURN_IF_ERROR(read_struct(options, "options", from));
      std::optional<std::uint64_t> bound;
      WEFT_RETURN_IF_ERROR(read_flagged("bound", from.has_bound, from.bound, bound));
      how.name = name_or(from.name, how.name);
      how.bound = bound.value_or(how.bound);
    }
    WEFT_ASSIGN(
        BoundedStaleness made,
        BoundedStaleness::create(*object->context, {x, count, static_cast<DataType>(type)}, how));
    give(std::make_shared<Kept<BoundedStaleness>>(object, std::move(made)), staleness);
    return {};
  });
}
weft_code weft_bounded_staleness_free(weft_bounded_staleness* staleness) {
  return call(__func__, [&] { return release(staleness, "staleness"); });
}
weft_code weft_bounded_staleness_publish(weft_bounded_staleness* staleness) {
  return on(__func__, staleness, [](BoundedStaleness& it) { return it.publish(); });
}
weft_code weft_bounded_staleness_wait(weft_bounded_staleness* staleness, int64_t patience_ns) {
  return on(__func__, staleness, [&](BoundedStaleness& it) { return it.wait(patience_ns); });
}
weft_code weft_bounded_staleness_average(weft_bounded_staleness* staleness) {
  return on(__func__, staleness, [](BoundedStaleness& it) { return it.average(); });
}
weft_code weft_bounded_staleness_step(weft_bounded_staleness* staleness) {
  return on(__func__, staleness, [](BoundedStaleness& it) { return it.step(); });
}
weft_code weft_bounded_staleness_version(weft_bounded_staleness* staleness, uint64_t* version) {
  return on(__func__, staleness, [&](BoundedStaleness& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(version, "version"));
    *version = it.version();
    return {};
  });
}
weft_code weft_bounded_staleness_delivered(weft_bounded_staleness* staleness, uint64_t* versions,
                                           size_t room, size_t* count) {
  return on(__func__, staleness, [&](BoundedStaleness& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    WEFT_ASSIGN(const std::vector<std::uint64_t> found, it.delivered());
    return give_array(std::span(found), "versions", versions, room, count);
  });
}
weft_code weft_bounded_staleness_end(weft_bounded_staleness* staleness) {
  return on(__func__, staleness, [](BoundedStaleness& it) { return it.end(); });
}
