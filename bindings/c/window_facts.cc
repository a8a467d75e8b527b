// window_facts: what windows say about themselves, and which there are.
#include <weft/context.h>

#include <string>
#include <vector>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"

namespace {

using namespace weft::c;
using weft::Status;
using weft::Window;

weft_code give_ranks(const char* function, const weft_window* window,
                     std::span<const weft::Rank> (Window::*which)() const, int32_t* ranks,
                     std::size_t capacity, std::size_t* count) {
  return call(function, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    return give_array((object->window.*which)(), "ranks", ranks, capacity, count);
  });
}

}  // namespace

weft_code weft_context_window_count(const weft_context* context, size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    *count = object->context->window_names().size();
    return {};
  });
}

weft_code weft_context_window_name(const weft_context* context, size_t index, char** name) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(name, "name"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    const std::vector<std::string> names = object->context->window_names();
    if (index >= names.size()) {
      return argument_error("index", "is " + std::to_string(index) + ", and there are " +
                                         std::to_string(names.size()) + " windows");
    }
    return give_string(names[index], name);
  });
}

weft_code weft_window_name(const weft_window* window, char** name) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(name, "name"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    return give_string(object->window.name(), name);
  });
}

weft_code weft_window_tensor(const weft_window* window, void** tensor, size_t* count,
                             weft_data_type* type) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(tensor, "tensor"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    WEFT_RETURN_IF_ERROR(check_not_null(type, "type"));
    const weft::Output found = object->window.tensor();
    *tensor = found.data;
    *count = found.count;
    *type = static_cast<weft_data_type>(found.type);
    return {};
  });
}

weft_code weft_window_in_neighbors(const weft_window* window, int32_t* ranks, size_t capacity,
                                   size_t* count) {
  return give_ranks(__func__, window, &Window::in_neighbors, ranks, capacity, count);
}
weft_code weft_window_out_neighbors(const weft_window* window, int32_t* ranks, size_t capacity,
                                    size_t* count) {
  return give_ranks(__func__, window, &Window::out_neighbors, ranks, capacity, count);
}

weft_code weft_window_versions(weft_window* window, uint64_t* versions, size_t capacity,
                               size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    WEFT_ASSIGN(const std::vector<std::uint64_t> found, object->window.versions());
    return give_array(std::span(found), "versions", versions, capacity, count);
  });
}

weft_code weft_window_associated_p(weft_window* window, double* p) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    WEFT_RETURN_IF_ERROR(check_not_null(p, "p"));
    WEFT_ASSIGN(*p, object->window.associated_p());
    return {};
  });
}
weft_code weft_window_set_associated_p(weft_window* window, int on) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    return object->window.set_associated_p(on != 0);
  });
}

weft_code weft_window_signal(weft_window* window, int32_t number, uint64_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    WEFT_ASSIGN(*count, object->window.signal(number));
    return {};
  });
}
