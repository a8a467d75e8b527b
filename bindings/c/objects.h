// objects: what the handles of the C API stand for, and how a function gets at it.
#pragma once

#include <weft/c.h>
#include <weft/context.h>
#include <weft/feedback.h>
#include <weft/graph.h>
#include <weft/store.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/c/call.h"
#include "bindings/c/registry.h"

namespace weft::c {

struct ContextObject {
  explicit ContextObject(std::unique_ptr<Context> made)
      : context(std::move(made)), graph(context->graph()) {}
  const std::unique_ptr<Context> context;
  Graph graph;  // that is set; guarded by lock_objects(), as Context::graph() is not by any lock
};
struct HandleObject {
  Handle handle;
};
struct ConfigObject {
  explicit ConfigObject(Config from) : config(std::move(from)) {}
  Config copy() const {
    const auto lock = lock_objects();
    return config;
  }
  Config config;  // guarded by lock_objects()
};

struct WindowObject {
  explicit WindowObject(Window made) : window(std::move(made)) {}
  Window window;
};
struct NamedObject {
  explicit NamedObject(Named made) : named(std::move(made)) {}
  Named named;
};

// Which object and which name belong to a type of handle.
template <typename Shown>
struct Of;
template <>
struct Of<weft_context> {
  using Object = ContextObject;
  static constexpr Kind kKind = Kind::context;
  static constexpr const char* kName = "weft_context";
};
template <>
struct Of<weft_handle> {
  using Object = HandleObject;
  static constexpr Kind kKind = Kind::handle;
  static constexpr const char* kName = "weft_handle";
};
template <>
struct Of<weft_graph> {
  using Object = Graph;
  static constexpr Kind kKind = Kind::graph;
  static constexpr const char* kName = "weft_graph";
};
template <>
struct Of<weft_schedule> {
  using Object = Schedule;
  static constexpr Kind kKind = Kind::schedule;
  static constexpr const char* kName = "weft_schedule";
};
template <>
struct Of<weft_config> {
  using Object = ConfigObject;
  static constexpr Kind kKind = Kind::config;
  static constexpr const char* kName = "weft_config";
};
template <>
struct Of<weft_store> {
  using Object = Store;
  static constexpr Kind kKind = Kind::store;
  static constexpr const char* kName = "weft_store";
};
template <>
struct Of<weft_window> {
  using Object = WindowObject;
  static constexpr Kind kKind = Kind::window;
  static constexpr const char* kName = "weft_window";
};

template <>
struct Of<weft_named> {
  using Object = NamedObject;
  static constexpr Kind kKind = Kind::named;
  static constexpr const char* kName = "weft_named";
};

template <>
struct Of<weft_prepared> {
  using Object = Prepared;
  static constexpr Kind kKind = Kind::prepared;
  static constexpr const char* kName = "weft_prepared";
};

template <>
struct Of<weft_feedback> {
  using Object = ErrorFeedback;
  static constexpr Kind kKind = Kind::feedback;
  static constexpr const char* kName = "weft_feedback";
};

template <typename Shown>
Status unknown_handle(const char* argument) {
  return argument_error(argument, std::string("is no ") + Of<Shown>::kName +
                                      ": it was freed, or is a handle of something else");
}

// The object of a handle that is open.
template <typename Shown>
Result<std::shared_ptr<typename Of<Shown>::Object>> object_of(const Shown* handle,
                                                              const char* argument) {
  WEFT_RETURN_IF_ERROR(check_not_null(handle, argument));
  Found found = find_object(Of<Shown>::kKind, handle);
  if (!found.is_known) return unknown_handle<Shown>(argument);
  if (found.object == nullptr)
    return call_error(Code::closed, std::string("the ") + argument + " was closed");
  return std::static_pointer_cast<typename Of<Shown>::Object>(std::move(found.object));
}

// *handle := a new handle of the object.
template <typename Shown>
void give(std::shared_ptr<typename Of<Shown>::Object> object, Shown** handle) {
  *handle = static_cast<Shown*>(register_object(Of<Shown>::kKind, std::move(object)));
}

// Checks an argument for a new object, and sets it to NULL until there is one.
template <typename Shown>
Status check_result(Shown** result, const char* argument) {
  WEFT_RETURN_IF_ERROR(check_not_null(result, argument));
  *result = nullptr;
  return {};
}

// What every `…_free` function does.
template <typename Shown>
Status release(Shown* handle, const char* argument) {
  if (handle == nullptr) return {};
  return remove_object(Of<Shown>::kKind, handle).is_known ? Status()
                                                          : unknown_handle<Shown>(argument);
}

// *handle := a handle of what begin() starts, which is a Result<Handle>. The handle is made before
// the start, because nothing may fail after it.
template <typename Begin>
Status give_started(weft_handle** handle, Begin begin) {
  auto started = std::make_shared<HandleObject>();
  weft_handle* made = nullptr;
  give(started, &made);
  Result<Handle> result = begin();
  if (!result.ok()) {
    (void)release(made, "handle");
    return result.status();
  }
  started->handle = *std::move(result);
  *handle = made;
  return {};
}

}  // namespace weft::c
