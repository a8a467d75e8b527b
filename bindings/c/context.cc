// context: joining and leaving a job, and the graphs of a context.
#include <weft/context.h>

#include <memory>
#include <optional>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"

namespace {

using namespace weft::c;
using weft::Context;
using weft::Graph;
using weft::Status;

void give_context(std::unique_ptr<Context> made, weft_context** context) {
  give(std::make_shared<ContextObject>(std::move(made)), context);
}

}  // namespace

weft_code weft_context_from_environment(weft_context** context) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(context, "context"));
    WEFT_ASSIGN(std::unique_ptr<Context> made, Context::from_environment());
    give_context(std::move(made), context);
    return {};
  });
}

weft_code weft_context_create(const weft_config* config, const weft_store* store,
                              weft_context** context) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(context, "context"));
    WEFT_ASSIGN(const auto settings, object_of(config, "config"));
    WEFT_ASSIGN(const auto leads, object_of(store, "store"));
    WEFT_ASSIGN(std::unique_ptr<Context> made, Context::create(settings->copy(), leads));
    give_context(std::move(made), context);
    return {};
  });
}

weft_code weft_context_split(weft_context* context, int32_t color, int32_t key,
                             weft_context** made) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(made, "made"));
    WEFT_ASSIGN(const auto from, object_of(context, "context"));
    WEFT_ASSIGN(std::unique_ptr<Context> part, from->context->split(color, key));
    if (part != nullptr) give_context(std::move(part), made);
    return {};
  });
}

weft_code weft_context_shrink(weft_context* context, weft_context** made) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(made, "made"));
    WEFT_ASSIGN(const auto from, object_of(context, "context"));
    WEFT_ASSIGN(std::unique_ptr<Context> left, from->context->shrink());
    give_context(std::move(left), made);
    return {};
  });
}

weft_code weft_context_admit(weft_context* context, const weft_tensor* state, size_t tensors,
                             int32_t* ranks, size_t capacity, size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    if (tensors != 0) WEFT_RETURN_IF_ERROR(check_not_null(state, "state"));
    if (capacity != 0) WEFT_RETURN_IF_ERROR(check_not_null(ranks, "ranks"));
    std::vector<weft::Output> all;
    for (const weft_tensor& each : std::span(state, tensors))
      all.push_back({each.data, each.count, static_cast<weft::DataType>(each.type)});
    WEFT_ASSIGN(const std::vector<weft::Rank> let_in, object->context->admit(all));
    return give_array(std::span<const weft::Rank>(let_in), "ranks", ranks, capacity, count);
  });
}

weft_code weft_context_close(weft_context* context) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(context, "context"));
    const Found closed = close_object(Kind::context, context);
    return closed.is_known ? Status() : unknown_handle<weft_context>("context");
  });
}

weft_code weft_context_free(weft_context* context) {
  return call(__func__, [&] { return release(context, "context"); });
}

weft_code weft_context_set_graph(weft_context* context, const weft_graph* graph, int weighted) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_ASSIGN(const auto given, object_of(graph, "graph"));
    WEFT_RETURN_IF_ERROR(object->context->set_graph(*given, weighted != 0));
    const auto lock = lock_objects();
    object->graph = *given;
    return {};
  });
}

weft_code weft_context_graph(const weft_context* context, weft_graph** graph) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(graph, "graph"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    std::shared_ptr<Graph> copy;
    {
      const auto lock = lock_objects();
      copy = std::make_shared<Graph>(object->graph);
    }
    give(std::move(copy), graph);
    return {};
  });
}

weft_code weft_context_set_machine_graph(weft_context* context, const weft_graph* graph,
                                         int weighted) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_ASSIGN(const auto given, object_of(graph, "graph"));
    return object->context->set_machine_graph(*given, weighted != 0);
  });
}

weft_code weft_context_machine_graph(const weft_context* context, weft_graph** graph) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(graph, "graph"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    const std::optional<Graph> set = object->context->machine_graph();
    if (set) give(std::make_shared<Graph>(*set), graph);
    return {};
  });
}
