// window: making and freeing windows, and the works that move tensors. Blocking and started calls
// share the reading of their options.
#include <weft/context.h>

#include <memory>
#include <optional>
#include <string>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"
#include "bindings/c/request.h"
#include "bindings/c/structs.h"

namespace {

using namespace weft::c;
using weft::DataType;
using weft::Handle;
using weft::NeighborWeight;
using weft::Output;
using weft::Result;
using weft::Status;
using weft::Window;

void give_window(Window made, weft_window** window) {
  give(std::make_shared<WindowObject>(std::move(made)), window);
}

// A struct that may be NULL, which stands for zeros.
template <typename Options>
Status read_options(const Options* from, const char* argument, Options& to) {
  return from == nullptr ? Status() : read_struct(from, argument, to);
}

Status check_reserved(const char* member, std::int32_t value) {
  return value == 0 ? Status() : argument_error(member, "must be 0");
}

// Checks a value that counts only with its `has_…` member.
template <typename Value>
Status check_given(std::int32_t has, Value value, const char* has_member, const char* member) {
  WEFT_RETURN_IF_ERROR(check_flag(has_member, has));
  if (has != 0 || value == Value{}) return {};
  return argument_error(member, std::string("is set, but ") + has_member + " is 0");
}

struct Put {
  weft::WindowPut how;
  std::vector<NeighborWeight> destinations;
};

Status convert(const weft_put_options* given, Put& to) {
  weft_put_options from{};
  WEFT_RETURN_IF_ERROR(read_options(given, "how", from));
  WEFT_RETURN_IF_ERROR(check_given(from.has_self_weight, from.self_weight, "how->has_self_weight",
                                   "how->self_weight"));
  WEFT_RETURN_IF_ERROR(check_given(from.has_signal, from.signal, "how->has_signal", "how->signal"));
  WEFT_RETURN_IF_ERROR(check_flag("how->require_mutex", from.require_mutex));
  WEFT_RETURN_IF_ERROR(check_reserved("how->reserved", from.reserved));
  WEFT_RETURN_IF_ERROR(check_compression("how->compression", from.compression));
  to.how.compression = static_cast<weft::Compression>(from.compression);
  if (from.has_self_weight != 0) to.how.self_weight = from.self_weight;
  if (from.has_signal != 0) {
    WEFT_RETURN_IF_ERROR(
        check_number("how->signal", from.signal, weft::kWindowSignals - 1, "signal"));
    to.how.signal = from.signal;
  }
  to.how.require_mutex = from.require_mutex != 0;
  to.how.stream = stream_of(from.stream);
  return convert_peers(from.destinations, from.destination_count, "how->destinations",
                       to.destinations, to.how.destinations);
}

struct Get {
  weft::WindowGet how;
  std::vector<NeighborWeight> sources;
};

Status convert(const weft_get_options* given, Get& to) {
  weft_get_options from{};
  WEFT_RETURN_IF_ERROR(read_options(given, "how", from));
  WEFT_RETURN_IF_ERROR(check_flag("how->require_mutex", from.require_mutex));
  WEFT_RETURN_IF_ERROR(check_reserved("how->reserved", from.reserved));
  to.how.require_mutex = from.require_mutex != 0;
  to.how.stream = stream_of(from.stream);
  return convert_peers(from.sources, from.source_count, "how->sources", to.sources, to.how.sources);
}

struct Update {
  weft::WindowUpdate how;
  std::vector<NeighborWeight> sources;
};

Status convert(const weft_update_options* given, const Output& tensor, Update& to) {
  weft_update_options from{};
  WEFT_RETURN_IF_ERROR(read_options(given, "how", from));
  WEFT_RETURN_IF_ERROR(check_given(from.has_self_weight, from.self_weight, "how->has_self_weight",
                                   "how->self_weight"));
  WEFT_RETURN_IF_ERROR(check_flag("how->reset", from.reset));
  WEFT_RETURN_IF_ERROR(check_flag("how->require_mutex", from.require_mutex));
  WEFT_RETURN_IF_ERROR(check_reserved("how->reserved", from.reserved));
  if (from.has_self_weight != 0) to.how.self_weight = from.self_weight;
  to.how.reset = from.reset != 0;
  to.how.require_mutex = from.require_mutex != 0;
  to.how.stream = stream_of(from.stream);
  if (from.clone != nullptr) to.how.clone = {from.clone, tensor.count, tensor.type};
  return convert_peers(from.sources, from.source_count, "how->sources", to.sources, to.how.sources);
}

Status tensor_of(void* x, std::size_t count, weft_data_type type, Output& to) {
  WEFT_RETURN_IF_ERROR(check_type(type));
  to = {x, count, static_cast<DataType>(type)};
  return {};
}

// The two kinds of put, as functions of Window.
using RunPut = Status (Window::*)(const Output&, const weft::WindowPut&);
using StartPut = Result<Handle> (Window::*)(const Output&, const weft::WindowPut&);

weft_code run_put(const char* function, weft_window* window, void* x, std::size_t count,
                  weft_data_type type, const weft_put_options* how, RunPut run) {
  return call(function, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Output tensor;
    WEFT_RETURN_IF_ERROR(tensor_of(x, count, type, tensor));
    Put put;
    WEFT_RETURN_IF_ERROR(convert(how, put));
    return (object->window.*run)(tensor, put.how);
  });
}

weft_code start_put(const char* function, weft_window* window, void* x, std::size_t count,
                    weft_data_type type, const weft_put_options* how, weft_handle** handle,
                    StartPut start) {
  return call(function, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(handle, "handle"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Output tensor;
    WEFT_RETURN_IF_ERROR(tensor_of(x, count, type, tensor));
    Put put;
    WEFT_RETURN_IF_ERROR(convert(how, put));
    return give_started(handle, [&] { return (object->window.*start)(tensor, put.how); });
  });
}

using PreparePut = Result<weft::Prepared> (Window::*)(const Output&, const weft::WindowPut&);

weft_code prepare_put(const char* function, weft_window* window, void* x, std::size_t count,
                      weft_data_type type, const weft_put_options* how, weft_prepared** prepared,
                      PreparePut prepare) {
  return call(function, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(prepared, "prepared"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Output tensor;
    WEFT_RETURN_IF_ERROR(tensor_of(x, count, type, tensor));
    Put put;
    WEFT_RETURN_IF_ERROR(convert(how, put));
    WEFT_ASSIGN(weft::Prepared made, (object->window.*prepare)(tensor, put.how));
    give(std::make_shared<weft::Prepared>(std::move(made)), prepared);
    return {};
  });
}

}  // namespace

weft_code weft_context_win_create(weft_context* context, void* tensor, size_t count,
                                  weft_data_type type, const char* name,
                                  const weft_window_options* options, weft_window** window) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(window, "window"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    weft_window_options from{};
    WEFT_RETURN_IF_ERROR(read_options(options, "options", from));
    WEFT_RETURN_IF_ERROR(check_flag("options->zero_init", from.zero_init));
    WEFT_RETURN_IF_ERROR(check_reserved("options->reserved", from.reserved));
    Output memory;
    WEFT_RETURN_IF_ERROR(tensor_of(tensor, count, type, memory));
    const weft::WindowOptions how{.zero_init = from.zero_init != 0};
    WEFT_ASSIGN(Window made, object->context->win_create(memory, name, how));
    give_window(std::move(made), window);
    return {};
  });
}

weft_code weft_context_window(const weft_context* context, const char* name, weft_window** window) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(window, "window"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    WEFT_ASSIGN(Window found, object->context->window(name));
    give_window(std::move(found), window);
    return {};
  });
}

weft_code weft_context_win_free(weft_context* context, const char* name) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    return object->context->win_free(name);
  });
}

weft_code weft_context_win_free_all(weft_context* context) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    return object->context->win_free_all();
  });
}

weft_code weft_context_win_fence(weft_context* context) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    return object->context->win_fence();
  });
}

weft_code weft_window_free(weft_window* window) {
  return call(__func__, [&] { return release(window, "window"); });
}

weft_code weft_window_put(weft_window* window, void* x, size_t count, weft_data_type type,
                          const weft_put_options* how) {
  return run_put(__func__, window, x, count, type, how, &Window::put);
}
weft_code weft_window_put_start(weft_window* window, void* x, size_t count, weft_data_type type,
                                const weft_put_options* how, weft_handle** handle) {
  return start_put(__func__, window, x, count, type, how, handle, &Window::put_start);
}

weft_code weft_window_accumulate(weft_window* window, void* x, size_t count, weft_data_type type,
                                 const weft_put_options* how) {
  return run_put(__func__, window, x, count, type, how, &Window::accumulate);
}
weft_code weft_window_accumulate_start(weft_window* window, void* x, size_t count,
                                       weft_data_type type, const weft_put_options* how,
                                       weft_handle** handle) {
  return start_put(__func__, window, x, count, type, how, handle, &Window::accumulate_start);
}

weft_code weft_window_prepare_put(weft_window* window, void* x, size_t count, weft_data_type type,
                                  const weft_put_options* how, weft_prepared** prepared) {
  return prepare_put(__func__, window, x, count, type, how, prepared, &Window::prepare_put);
}
weft_code weft_window_prepare_accumulate(weft_window* window, void* x, size_t count,
                                         weft_data_type type, const weft_put_options* how,
                                         weft_prepared** prepared) {
  return prepare_put(__func__, window, x, count, type, how, prepared, &Window::prepare_accumulate);
}

weft_code weft_window_get(weft_window* window, const weft_get_options* how) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Get get;
    WEFT_RETURN_IF_ERROR(convert(how, get));
    return object->window.get(get.how);
  });
}
weft_code weft_window_get_start(weft_window* window, const weft_get_options* how,
                                weft_handle** handle) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(handle, "handle"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Get get;
    WEFT_RETURN_IF_ERROR(convert(how, get));
    return give_started(handle, [&] { return object->window.get_start(get.how); });
  });
}

weft_code weft_window_update(weft_window* window, const weft_update_options* how) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Update update;
    WEFT_RETURN_IF_ERROR(convert(how, object->window.tensor(), update));
    return object->window.update(update.how);
  });
}
weft_code weft_window_update_then_collect(weft_window* window, int require_mutex) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    return object->window.update_then_collect(require_mutex != 0);
  });
}
