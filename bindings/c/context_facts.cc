// context_facts: what a context says about itself.
#include <weft/context.h>
#include <weft/metrics.h>

#include <memory>
#include <string>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"
#include "bindings/c/structs.h"

namespace {

using namespace weft::c;
using weft::Context;
using weft::Result;
using weft::Status;

// *value := one part of the placement.
Status give_place(const weft_context* context, int32_t* value, const char* argument,
                  int Context::Placement::*part) {
  WEFT_ASSIGN(const auto object, object_of(context, "context"));
  WEFT_RETURN_IF_ERROR(check_not_null(value, argument));
  WEFT_ASSIGN(const Context::Placement placement, object->context->placement());
  *value = placement.*part;
  return {};
}

}  // namespace

weft_code weft_context_rank(const weft_context* context, int32_t* rank) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(rank, "rank"));
    *rank = object->context->rank();
    return {};
  });
}

weft_code weft_context_size(const weft_context* context, int32_t* size) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(size, "size"));
    *size = object->context->size();
    return {};
  });
}

weft_code weft_context_members(const weft_context* context, int32_t* ranks, size_t capacity,
                               size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    const std::vector<weft::Rank> all = object->context->members();
    return give_array(std::span<const weft::Rank>(all), "ranks", ranks, capacity, count);
  });
}

weft_code weft_context_placement(const weft_context* context, weft_placement* placement) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(placement, "placement"));
    WEFT_ASSIGN(const Context::Placement found, object->context->placement());
    weft_placement given{};
    given.local_rank = found.local_rank;
    given.local_size = found.local_size;
    given.machine_rank = found.machine_rank;
    given.machine_size = found.machine_size;
    given.is_homogeneous = found.is_homogeneous ? 1 : 0;
    given.rails = found.layout.rails;
    return write_struct(given, "placement", placement);
  });
}

weft_code weft_context_local_rank(const weft_context* context, int32_t* local_rank) {
  return call(__func__, [&] {
    return give_place(context, local_rank, "local_rank", &Context::Placement::local_rank);
  });
}
weft_code weft_context_local_size(const weft_context* context, int32_t* local_size) {
  return call(__func__, [&] {
    return give_place(context, local_size, "local_size", &Context::Placement::local_size);
  });
}
weft_code weft_context_machine_rank(const weft_context* context, int32_t* machine_rank) {
  return call(__func__, [&] {
    return give_place(context, machine_rank, "machine_rank", &Context::Placement::machine_rank);
  });
}
weft_code weft_context_machine_size(const weft_context* context, int32_t* machine_size) {
  return call(__func__, [&] {
    return give_place(context, machine_size, "machine_size", &Context::Placement::machine_size);
  });
}

weft_code weft_context_machine_of(const weft_context* context, int32_t rank, int32_t* machine) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_rank(rank, object->context->size(), "rank"));
    WEFT_RETURN_IF_ERROR(check_not_null(machine, "machine"));
    WEFT_ASSIGN(const Context::Placement placement, object->context->placement());
    *machine = placement.layout.machine_of(rank);
    return {};
  });
}

weft_code weft_has_message(weft_context* context, int32_t from, int32_t* there) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(there, "there"));
    WEFT_ASSIGN(const bool found, object->context->has_message(from));
    *there = found ? 1 : 0;
    return {};
  });
}

weft_code weft_context_config(const weft_context* context, weft_config** config) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(config, "config"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    give(std::make_shared<ConfigObject>(object->context->config()), config);
    return {};
  });
}

weft_code weft_context_usage(const weft_context* context, weft_usage* usage) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    const Context::Usage found = object->context->usage();
    weft_usage given{};
    given.connected_peers = found.connected_peers;
    given.endpoint_bytes = found.endpoint_bytes;
    given.scratch_bytes = found.scratch_bytes;
    given.plans_cached = found.plans_cached;
    given.operations = found.operations;
    given.network_bytes = found.network_bytes;
    given.allocations = found.allocations;
    return write_struct(given, "usage", usage);
  });
}

weft_code weft_metrics(char** text) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(text, "text"));
    return give_string(weft::metrics(), text);
  });
}

weft_code weft_flight(char** text) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(text, "text"));
    return give_string(weft::flight(), text);
  });
}

weft_code weft_context_explain(const weft_context* context, char** text) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(text, "text"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    return give_string(object->context->explain(), text);
  });
}
