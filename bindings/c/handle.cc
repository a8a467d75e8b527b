// handle: started operations.
#include <weft/context.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "bindings/c/objects.h"

namespace weft::c {

// Is set by the callback of an operation for those that wait with a timeout.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;

  void set() {
    const std::lock_guard lock(mutex);
    is_done = true;
    changed.notify_all();
  }
  bool wait_until(std::chrono::steady_clock::time_point end) {
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, end, [this] { return is_done; });
  }
};

}  // namespace weft::c

namespace {

using namespace weft::c;
using weft::Status;
using Clock = std::chrono::steady_clock;

// The completion of an operation. The first call adds the callback that sets it.
Status completion_of(HandleObject& object, std::shared_ptr<Completion>& completion) {
  const std::lock_guard lock(object.mutex);
  if (object.completion == nullptr) {
    auto made = std::make_shared<Completion>();
    WEFT_RETURN_IF_ERROR(object.handle.then([made](const Status&) { made->set(); }));
    object.completion = std::move(made);
  }
  completion = object.completion;
  return {};
}

// Waits until the operation is done; *done := whether it is.
Status wait_until(HandleObject& object, Clock::time_point end, bool* done) {
  *done = object.handle.test();
  if (*done) return {};
  if (object.progress == weft::ProgressMode::waiter) {  // bytes move only while somebody tests
    while (!*done && Clock::now() < end) {
      std::this_thread::yield();
      *done = object.handle.test();
    }
    return {};
  }
  std::shared_ptr<Completion> completion;
  WEFT_RETURN_IF_ERROR(completion_of(object, completion));
  *done = completion->wait_until(end);
  return {};
}

}  // namespace

weft_code weft_handle_test(weft_handle* handle, int* done) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    WEFT_RETURN_IF_ERROR(check_not_null(done, "done"));
    *done = object->handle.test() ? 1 : 0;
    return {};
  });
}

weft_code weft_handle_wait(weft_handle* handle) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    return object->handle.wait();
  });
}

weft_code weft_handle_wait_for(weft_handle* handle, int64_t timeout_ms) {
  return call(__func__, [&]() -> Status {
    constexpr int64_t kLongestMs =
        2 * 86'400'000LL;  // an operation's own deadline is a day at most
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    if (timeout_ms < 0)
      return argument_error("timeout_ms", "is " + std::to_string(timeout_ms) + ", below 0");
    const auto end = Clock::now() + std::chrono::milliseconds(std::min(timeout_ms, kLongestMs));
    bool done = false;
    WEFT_RETURN_IF_ERROR(wait_until(*object, end, &done));
    if (done) return object->handle.wait();
    return call_error(weft::Code::timed_out,
                      "the operation is not done after " + std::to_string(timeout_ms) + " ms");
  });
}

weft_code weft_handle_then(weft_handle* handle, weft_callback callback, void* user) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(handle, "handle"));
    if (callback == nullptr) return argument_error("callback", "is NULL");
    return object->handle.then([callback, user](const Status& status) {
      const weft_code code = remember(status);  // for weft_last_error_rank() in the callback
      const std::string text(status.text());
      callback(user, code, text.c_str());
    });
  });
}

weft_code weft_handle_free(weft_handle* handle) {
  return call(__func__, [&] { return release(handle, "handle"); });
}
