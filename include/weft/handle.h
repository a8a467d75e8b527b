// handle: a started operation of a context or of a window.
#pragma once

#include <weft/status.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace WEFT_PUBLIC weft {

// A started operation. Copies refer to the same operation, and waiting again returns the same
// Status. A handle may outlive the context; an operation that was not done then reports `closed`.
class Operation;
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<Operation> operation);
  [[nodiscard]] bool is_empty() const { return operation_ == nullptr; }
  // Returns whether the operation is done, with or without an error. Makes progress; never blocks.
  [[nodiscard]] bool test();
  // Blocks until the operation is done, at most until its deadline.
  Status wait();
  // Blocks until the operation is done, at most for `patience_ns`. Returns whether it is done.
  [[nodiscard]] bool wait_for(std::int64_t patience_ns);
  // Runs `call` once, on the context's completion thread, when the operation is done; at once if it
  // is done already. A callback may start operations and wait for them, destroy the context, and
  // throw: an exception is logged as an error. The callbacks of a context run in turn, so
  // a callback must not wait for what another one does. If the thread cannot be started, an error
  // is returned and `call` is not run.
  Status then(std::function<void(const Status&)> call);

 private:
  std::shared_ptr<Operation> operation_;
};

}  // namespace weft
