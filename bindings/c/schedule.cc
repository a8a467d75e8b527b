// schedule: graphs that change at every step.
#include <weft/graph.h>

#include <memory>
#include <span>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"
#include "bindings/c/structs.h"

namespace {

using namespace weft::c;
using weft::Graph;
using weft::Schedule;
using weft::Status;

}  // namespace

weft_code weft_schedule_make(const char* spec, int32_t n, weft_schedule** schedule) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(schedule, "schedule"));
    WEFT_RETURN_IF_ERROR(check_not_null(spec, "spec"));
    WEFT_ASSIGN(const Schedule made, weft::make_schedule(spec, n));
    give(std::make_shared<Schedule>(made), schedule);
    return {};
  });
}

weft_code weft_schedule_one_peer(const weft_graph* graph, weft_schedule** schedule) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(schedule, "schedule"));
    WEFT_ASSIGN(const auto from, object_of(graph, "graph"));
    give(std::make_shared<Schedule>(weft::one_peer(*from)), schedule);
    return {};
  });
}

weft_code weft_schedule_free(weft_schedule* schedule) {
  return call(__func__, [&] { return release(schedule, "schedule"); });
}

weft_code weft_schedule_name(const weft_schedule* schedule, const char** name) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(schedule, "schedule"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    *name = from->name().c_str();
    return {};
  });
}

weft_code weft_schedule_size(const weft_schedule* schedule, int32_t* size) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(schedule, "schedule"));
    WEFT_RETURN_IF_ERROR(check_not_null(size, "size"));
    *size = from->size();
    return {};
  });
}

weft_code weft_schedule_period(const weft_schedule* schedule, uint64_t* period) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(schedule, "schedule"));
    WEFT_RETURN_IF_ERROR(check_not_null(period, "period"));
    *period = from->period();
    return {};
  });
}

weft_code weft_schedule_cover(const weft_schedule* schedule, uint64_t* cover) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(schedule, "schedule"));
    WEFT_RETURN_IF_ERROR(check_not_null(cover, "cover"));
    *cover = from->cover();
    return {};
  });
}

weft_code weft_schedule_local_view(const weft_schedule* schedule, uint64_t step, int32_t rank,
                                   weft_local_view* view) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(schedule, "schedule"));
    WEFT_RETURN_IF_ERROR(check_rank(rank, from->size(), "rank"));
    weft_local_view given{};
    WEFT_RETURN_IF_ERROR(read_struct(view, "view", given));
    const weft::LocalView found = from->local_view(step, rank);
    given.self_weight = found.self_weight;
    const Status in = give_array(std::span<const weft::Peer>(found.in), "view->in", given.in,
                                 given.in_capacity, &given.in_count);
    const Status out = give_array(std::span<const weft::Peer>(found.out), "view->out", given.out,
                                  given.out_capacity, &given.out_count);
    WEFT_RETURN_IF_ERROR(write_struct(given, "view", view));
    return in.ok() ? out : in;
  });
}

weft_code weft_schedule_step_graph(const weft_schedule* schedule, uint64_t step,
                                   weft_graph** graph) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(graph, "graph"));
    WEFT_ASSIGN(const auto from, object_of(schedule, "schedule"));
    WEFT_ASSIGN(const Graph made, weft::step_graph(*from, step));
    give(std::make_shared<Graph>(made), graph);
    return {};
  });
}

weft_code weft_schedule_union_graph(const weft_schedule* schedule, weft_graph** graph) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(graph, "graph"));
    WEFT_ASSIGN(const auto from, object_of(schedule, "schedule"));
    WEFT_ASSIGN(const Graph made, weft::union_graph(*from));
    give(std::make_shared<Graph>(made), graph);
    return {};
  });
}
