// window_raw: mutexes and waits of windows, and raw access to the tensors of neighbors.
#include <weft/window.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "bindings/c/arrays.h"
#include "bindings/c/objects.h"
#include "bindings/c/request.h"

namespace {

using namespace weft::c;
using weft::DataType;
using weft::Status;
using weft::WindowPage;

// Memory of a call: a type that exists, and a size that memory can have.
Status check_memory(const void* data, std::size_t count, weft_data_type type,
                    const char* argument) {
  WEFT_RETURN_IF_ERROR(check_type(type));
  if (count == 0) return {};
  WEFT_RETURN_IF_ERROR(check_not_null(data, argument));
  if (count <= std::numeric_limits<std::ptrdiff_t>::max() / weft_data_type_size(type)) return {};
  return argument_error("count", "is " + std::to_string(count) + ", which no memory can hold");
}

// What is written.
struct Write {
  weft::Input x;
  std::vector<WindowPage> pages;
};

Status convert(const void* x, std::size_t count, weft_data_type type, const weft_page* pages,
               std::size_t page_count, Write& to) {
  WEFT_RETURN_IF_ERROR(check_memory(x, count, type, "x"));
  if (page_count > 0) WEFT_RETURN_IF_ERROR(check_not_null(pages, "pages"));
  to.x = {x, count, static_cast<DataType>(type)};
  to.pages.reserve(page_count);
  for (const weft_page& page : std::span(pages, page_count))
    to.pages.push_back({page.local_offset, page.remote_offset});
  return {};
}

// Negative: the deadline alone.
int64_t patience_of(int64_t timeout_ms) {
  constexpr int64_t kLongestMs = 2 * 86'400'000LL;  // a deadline is a day at most
  return timeout_ms < 0 ? -1 : std::min(timeout_ms, kLongestMs) * int64_t{1'000'000};
}

}  // namespace

weft_code weft_window_lock(weft_window* window, const int32_t* ranks, size_t count) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    WEFT_RETURN_IF_ERROR(check_array(ranks, count, "ranks"));
    return object->window.lock({ranks, count});
  });
}
weft_code weft_window_unlock(weft_window* window) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    return object->window.unlock();
  });
}
weft_code weft_window_flush(weft_window* window) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    return object->window.flush();
  });
}

weft_code weft_window_write(weft_window* window, int32_t to, const void* x, size_t count,
                            weft_data_type type, const weft_page* pages, size_t page_count,
                            size_t page_bytes, int32_t signal) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Write write;
    WEFT_RETURN_IF_ERROR(convert(x, count, type, pages, page_count, write));
    return object->window.write(to, write.x, write.pages, page_bytes, signal);
  });
}
weft_code weft_window_write_start(weft_window* window, int32_t to, const void* x, size_t count,
                                  weft_data_type type, const weft_page* pages, size_t page_count,
                                  size_t page_bytes, int32_t signal, weft_handle** handle) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(handle, "handle"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Write write;
    WEFT_RETURN_IF_ERROR(convert(x, count, type, pages, page_count, write));
    return give_started(handle, [&] {
      return object->window.write_start(to, write.x, write.pages, page_bytes, signal);
    });
  });
}

weft_code weft_window_prepare_write(weft_window* window, int32_t to, const void* x, size_t count,
                                    weft_data_type type, const weft_page* pages, size_t page_count,
                                    size_t page_bytes, int32_t signal, weft_prepared** prepared) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(prepared, "prepared"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    Write write;
    WEFT_RETURN_IF_ERROR(convert(x, count, type, pages, page_count, write));
    WEFT_ASSIGN(weft::Prepared made,
                object->window.prepare_write(to, write.x, write.pages, page_bytes, signal));
    give(std::make_shared<weft::Prepared>(std::move(made)), prepared);
    return {};
  });
}

weft_code weft_window_read(weft_window* window, int32_t from, void* y, size_t count,
                           weft_data_type type, size_t remote_offset) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    WEFT_RETURN_IF_ERROR(check_memory(y, count, type, "y"));
    return object->window.read(from, {y, count, static_cast<DataType>(type)}, remote_offset);
  });
}

weft_code weft_window_wait_signal(weft_window* window, int32_t number, uint64_t count,
                                  int64_t timeout_ms) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    return object->window.wait_signal(number, count, patience_of(timeout_ms));
  });
}
weft_code weft_window_wait_signal_start(weft_window* window, int32_t number, uint64_t count,
                                        int64_t timeout_ms, weft_handle** handle) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(handle, "handle"));
    WEFT_ASSIGN(const auto object, object_of(window, "window"));
    return give_started(handle, [&] {
      return object->window.wait_signal_start(number, count, patience_of(timeout_ms));
    });
  });
}
