// session: a Context as Python holds it, which can be closed while threads are in its calls.
//
// The windows of the Context, which keep their arrays, end after it.
//
// Each call holds its own reference of the Context. close() drops the session's reference: if no
// call is in progress, the Context is destroyed there, else with the last call that ends. Destroying
// a Context waits for callbacks, which need the GIL, so it is destroyed without the GIL. The GIL
// guards the members.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/python/core/gil.h"
#include "bindings/python/core/named.h"
#include "bindings/python/core/open_windows.h"

namespace weft::python {

namespace nb = nanobind;

// A Context, its windows and its operations by name, which end before it. The arrays of windows may
// be in use until the Context is destroyed.
struct Opened {
  explicit Opened(std::unique_ptr<Context> made) : context(std::move(made)) {}
  OpenWindows windows;
  const std::unique_ptr<Context> context;

  void add(std::shared_ptr<OpenNamed> named) {
    const std::lock_guard lock(mutex);
    nameds.push_back(std::move(named));
  }
  void remove(const std::shared_ptr<OpenNamed>& named) {
    const std::lock_guard lock(mutex);
    std::erase(nameds, named);
  }
  std::mutex mutex;
  std::vector<std::shared_ptr<OpenNamed>> nameds;
};

class Session {
 public:
  // A reference of the Context for the time of a call.
  class Use {
   public:
    Use(const Session& session, std::shared_ptr<Opened> opened)
        : session_(session), opened_(std::move(opened)) {}
    ~Use() {
      if (!session_.is_closed()) return;  // the session has a reference, so this is not the last
      const GilReleased released;
      opened_.reset();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Context* operator->() const { return opened_->context.get(); }
    // For calls that may go on after the wait for them was left.
    [[nodiscard]] std::shared_ptr<Context> shared() const {
      return {opened_, opened_->context.get()};
    }
    [[nodiscard]] std::shared_ptr<Opened> opened() const { return opened_; }
    [[nodiscard]] std::shared_ptr<OpenWindows> windows() const {
      return {opened_, &opened_->windows};
    }

   private:
    const Session& session_;
    std::shared_ptr<Opened> opened_;
  };

  explicit Session(std::unique_ptr<Context> context);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The context; raises Closed if there is none any more. The GIL is held.
  [[nodiscard]] Use context() const {
    if (opened_ == nullptr) raise_closed();
    return {*this, opened_};
  }
  [[nodiscard]] bool is_closed() const { return opened_ == nullptr; }
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // Whether operations move only while a caller waits or tests.
  [[nodiscard]] bool has_no_thread() const { return has_no_thread_; }

  // Where this rank is. Asks the other ranks in the first call.
  [[nodiscard]] const Context::Placement& placement();
  [[nodiscard]] const Graph& graph() const { return graph_; }
  void set_graph(const Graph& graph, bool weighted);

  // Leaves the job. Calling it again has no effect. A signal ends the wait for the other ranks, not
  // the leaving itself.
  void close();

 private:
  [[noreturn]] static void raise_closed();
  // Takes the session's reference; null if there is none any more.
  std::shared_ptr<Opened> take();

  std::shared_ptr<Opened> opened_;
  const Rank rank_;
  const int size_;
  const bool has_no_thread_;
  Graph graph_;
  std::optional<Context::Placement> placement_;
};

using SharedSession = std::shared_ptr<Session>;

// Closes the contexts that are open; for the exit of the interpreter.
void close_all_sessions();

}  // namespace weft::python
