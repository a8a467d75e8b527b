// callbacks: the queue of operations whose callbacks wait, and the thread that empties it.
#include "engine/operation/callbacks.h"

#include <fmt/core.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <utility>

#include "engine/operation/operation.h"

namespace weft {
namespace {

void run_callback(const std::function<void(const Status&)>& call, const Status& status) {
  try {
    call(status);
  } catch (const std::exception& thrown) {
    log(LogLevel::error, fmt::format("the callback of an operation threw: {}", thrown.what()));
  } catch (...) {
    log(LogLevel::error, "the callback of an operation threw what is no std::exception");
  }
}

}  // namespace

struct Callbacks::Queue {
  std::mutex mutex;
  std::condition_variable wanted;
  std::deque<std::shared_ptr<Operation>> operations;
  bool stopping = false;
  Thread thread;
};

Callbacks::Callbacks() : queue_(std::make_shared<Queue>()) {}

Callbacks::~Callbacks() {
  stop();
}

void Callbacks::run(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  while (true) {
    queue->wanted.wait(lock, [&] { return queue->stopping || !queue->operations.empty(); });
    if (queue->operations.empty()) return;
    std::shared_ptr<Operation> operation = std::move(queue->operations.front());
    queue->operations.pop_front();
    lock.unlock();
    std::vector<std::function<void(const Status&)>> calls;
    {
      const std::lock_guard guard(operation->mutex);
      calls.swap(operation->calls);
    }
    for (const auto& call : calls) run_callback(call, operation->status);
    // The callbacks are destroyed without the lock, because they may own this very context.
    calls.clear();
    operation.reset();
    lock.lock();
  }
}

Status Callbacks::add(const std::shared_ptr<Operation>& operation,
                      std::function<void(const Status&)> call) {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->stopping) return Status(Code::closed, "the context was closed");
  if (!queue_->thread.joinable()) {
    WEFT_ASSIGN(queue_->thread, start_thread("weft-callbacks", [queue = queue_] { run(queue); }));
  }
  const std::lock_guard guard(operation->mutex);
  operation->calls.push_back(std::move(call));
  if (!operation->done.load(std::memory_order_acquire)) return {};
  queue_->operations.push_back(operation);
  queue_->wanted.notify_one();
  return {};
}

void Callbacks::complete(const std::shared_ptr<Operation>& operation, Status status) {
  if (!operation->has_handle) {  // no other thread knows the operation
    operation->status = std::move(status);
    operation->done.store(true, std::memory_order_release);
    return;
  }
  {
    const std::lock_guard guard(operation->mutex);
    operation->status = std::move(status);
    operation->done.store(true, std::memory_order_release);
    if (operation->calls.empty()) return;
  }
  const std::lock_guard lock(queue_->mutex);
  queue_->operations.push_back(operation);
  queue_->wanted.notify_one();
}

void Callbacks::stop() {
  Thread thread;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stopping = true;
    queue_->wanted.notify_one();
    thread = std::move(queue_->thread);
  }
  thread.join();
}

}  // namespace weft
