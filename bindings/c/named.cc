// named: operations by name.
#include <weft/context.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/c/objects.h"
#include "bindings/c/request.h"
#include "bindings/c/structs.h"

namespace {

using namespace weft::c;
using weft::Handle;
using weft::Named;
using weft::NamedOptions;
using weft::Request;
using weft::Result;
using weft::Status;

Status convert(const weft_named_options* given, NamedOptions& to) {
  if (given == nullptr) return {};
  weft_named_options from{};
  WEFT_RETURN_IF_ERROR(read_struct(given, "options", from));
  const auto given_or = [](std::int64_t value, std::int64_t usual) {
    return value == 0 ? usual : value;
  };
  if (from.cache_capacity != 0)
    to.cache_capacity = static_cast<std::size_t>(std::max<std::int64_t>(from.cache_capacity, 0));
  if (from.fusion_bytes != 0) to.fusion_bytes = std::max<std::int64_t>(from.fusion_bytes, 0);
  to.fused_tensor_bytes = given_or(from.fused_tensor_bytes, to.fused_tensor_bytes);
  to.gather_us = given_or(from.gather_us, to.gather_us);
  to.piece_bytes = given_or(from.piece_bytes, to.piece_bytes);
  to.stall_ms = given_or(from.stall_ms, to.stall_ms);
  WEFT_RETURN_IF_ERROR(check_flag("options->autotune", from.autotune));
  to.autotune = from.autotune != 0;
  return {};
}

// The requests as the C++ API takes them. They point into the Converted, which stay where they are.
struct Group {
  std::vector<std::unique_ptr<Converted>> converted;
  std::vector<Request> requests;
};

Status convert(const weft_request* from, std::size_t count, Group& to) {
  WEFT_RETURN_IF_ERROR(check_not_null(from, count == 1 ? "request" : "requests"));
  // A program that was compiled with another version has requests of another size.
  const auto* next = reinterpret_cast<const std::byte*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    weft_request known{};
    WEFT_RETURN_IF_ERROR(
        read_struct(reinterpret_cast<const weft_request*>(next), "request", known));
    if (known.size != from->size)
      return argument_error("requests->size", "differs between the requests of the group");
    next += known.size;
    to.converted.push_back(std::make_unique<Converted>());
    WEFT_RETURN_IF_ERROR(convert(known, *to.converted.back()));
    to.requests.push_back(to.converted.back()->request);
  }
  return {};
}

Status start(weft_named* named, const char* name, const weft_request* requests, std::size_t count,
             std::int32_t priority, weft_handle** handle) {
  WEFT_RETURN_IF_ERROR(check_result(handle, "handle"));
  WEFT_ASSIGN(const auto object, object_of(named, "named"));
  WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
  Group group;
  WEFT_RETURN_IF_ERROR(convert(requests, count, group));
  return give_started(handle,
                      [&] { return object->named.start_group(name, group.requests, priority); });
}

}  // namespace

weft_code weft_context_named(weft_context* context, const weft_named_options* options,
                             weft_named** named) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(named, "named"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    NamedOptions how;
    WEFT_RETURN_IF_ERROR(convert(options, how));
    WEFT_ASSIGN(Named made, object->context->named(how));
    give(std::make_shared<NamedObject>(std::move(made)), named);
    return {};
  });
}

weft_code weft_named_free(weft_named* named) {
  return call(__func__, [&] { return release(named, "named"); });
}

weft_code weft_named_start(weft_named* named, const char* name, const weft_request* request,
                           std::int32_t priority, weft_handle** handle) {
  return call(__func__, [&] { return start(named, name, request, 1, priority, handle); });
}

weft_code weft_named_run(weft_named* named, const char* name, const weft_request* request,
                         std::int32_t priority) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(named, "named"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    Group group;
    WEFT_RETURN_IF_ERROR(convert(request, 1, group));
    return object->named.run(name, group.requests.front(), priority);
  });
}

weft_code weft_named_start_group(weft_named* named, const char* name, const weft_request* requests,
                                 size_t count, std::int32_t priority, weft_handle** handle) {
  return call(__func__, [&] { return start(named, name, requests, count, priority, handle); });
}

weft_code weft_named_join(weft_named* named, std::int32_t* last) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(last, "last"));
    WEFT_ASSIGN(const auto object, object_of(named, "named"));
    WEFT_ASSIGN(*last, object->named.join());
    return {};
  });
}

weft_code weft_named_set_graph(weft_named* named, const weft_graph* graph, int weighted) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(named, "named"));
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(check_flag("weighted", weighted));
    return object->named.set_graph(*from, weighted != 0);
  });
}

weft_code weft_named_get_usage(weft_named* named, weft_named_usage* usage) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(named, "named"));
    WEFT_ASSIGN(const Named::Usage found, object->named.usage());
    weft_named_usage given{};
    given.submitted = found.submitted;
    given.cycles = found.cycles;
    given.control_bytes = found.control_bytes;
    given.control_messages = found.control_messages;
    given.coordinator_messages = found.coordinator_messages;
    given.cache_hits = found.cache_hits;
    given.batches = found.batches;
    given.fused = found.fused;
    given.pending = found.pending;
    given.fusion_buffer_bytes = found.fusion_buffer_bytes;
    static_assert(sizeof(given.batches_by_names) == sizeof(found.batches_by_names));
    std::ranges::copy(found.batches_by_names, given.batches_by_names);
    given.fusion_bytes = found.fusion_bytes;
    given.fused_tensor_bytes = found.fused_tensor_bytes;
    given.gather_us = found.gather_us;
    given.piece_bytes = found.piece_bytes;
    given.is_tuning = found.is_tuning ? 1 : 0;
    return write_struct(given, "usage", usage);
  });
}

weft_code weft_named_end(weft_named* named) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(named, "named"));
    return object->named.end();
  });
}
