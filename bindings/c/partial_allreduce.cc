// partial_allreduce: partial all-reduce in groups that a generator makes.
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/algorithms.h"
#include "bindings/c/arrays.h"

namespace {

using namespace weft::c;
using weft::DataType;
using weft::PartialAllreduce;
using weft::PartialAllreduceOptions;
using weft::Rank;
using weft::Status;

template <typename Shown, typename Use>
weft_code on(const char* function, Shown* partial, Use&& use) {
  return use_algorithm(function, partial, "partial", true, std::forward<Use>(use));
}

Status convert(const weft_partial_allreduce_options* given, PartialAllreduceOptions& to) {
  if (given == nullptr) return {};
  weft_partial_allreduce_options from{};
  WEFT_RETURN_IF_ERROR(read_struct(given, "options", from));
  to.name = name_or(from.name, to.name);
  to.law = name_or(from.law, to.law);
  if (from.seed != 0) to.seed = from.seed;
  if (from.threshold != 0) to.threshold = from.threshold;
  if (from.section != 0) to.section = from.section;
  to.stream = stream_of(from.stream);
  return {};
}

// Before the average, as a rank that has averaged cannot do so again.
Status check_room(const int32_t* group, std::size_t room, const size_t* count, int ranks) {
  if (group == nullptr && room == 0) return {};
  WEFT_RETURN_IF_ERROR(check_not_null(group, "group"));
  WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
  if (room >= static_cast<std::size_t>(ranks)) return {};
  return argument_error(
      "group", "has room for " + std::to_string(room) + " of " + std::to_string(ranks) + " ranks");
}

}  // namespace

weft_code weft_partial_allreduce_create(weft_context* context, void* model, size_t count,
                                        weft_data_type type,
                                        const weft_partial_allreduce_options* options,
                                        weft_partial_allreduce** partial) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(partial, "partial"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_type(type));
    PartialAllreduceOptions how;
    WEFT_RETURN_IF_ERROR(convert(options, how));
    WEFT_ASSIGN(PartialAllreduce made,
                PartialAllreduce::create(*object->context,
                                         {model, count, static_cast<DataType>(type)}, how));
    give(std::make_shared<Kept<PartialAllreduce>>(object, std::move(made)), partial);
    return {};
  });
}
weft_code weft_partial_allreduce_free(weft_partial_allreduce* partial) {
  return call(__func__, [&] { return release(partial, "partial"); });
}
weft_code weft_partial_allreduce_begin(weft_partial_allreduce* partial) {
  return on(__func__, partial, [](PartialAllreduce& it) { return it.begin(); });
}
weft_code weft_partial_allreduce_average(weft_partial_allreduce* partial, int32_t* group,
                                         size_t room, size_t* count) {
  const auto average = [&](auto& kept, const ContextObject& context) -> Status {
    WEFT_RETURN_IF_ERROR(check_room(group, room, count, context.context->size()));
    WEFT_ASSIGN(const std::vector<Rank> members, kept.algorithm.average());
    size_t unread = 0;
    return give_array(std::span(members), "group", group, room, count == nullptr ? &unread : count);
  };
  return use_kept(__func__, partial, "partial", true, average);
}
weft_code weft_partial_allreduce_get_usage(const weft_partial_allreduce* partial,
                                           weft_partial_allreduce_usage* usage) {
  return on(__func__, partial, [&](const PartialAllreduce& it) -> Status {
    const PartialAllreduce::Usage now = it.usage();
    const weft_partial_allreduce_usage known{sizeof(known), now.messages_sent,
                                             now.messages_received, now.groups, now.successions};
    return write_struct(known, "usage", usage);
  });
}
weft_code weft_partial_allreduce_end(weft_partial_allreduce* partial) {
  return on(__func__, partial, [](PartialAllreduce& it) { return it.end(); });
}
