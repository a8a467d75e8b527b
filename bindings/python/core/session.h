// session: a Context as Python holds it, which can be closed while threads are in its calls.
//
// Each call holds its own reference of the Context. close() drops the session's reference: if no
// call is in progress, the Context is destroyed there, else with the last call that ends. Destroying
// a Context waits for callbacks, which need the GIL, so it is destroyed without the GIL. The GIL
// guards the members.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings/python/core/gil.h"

namespace weft::python {

namespace nb = nanobind;

class Session {
 public:
  // A reference of the Context for the time of a call.
  class Use {
   public:
    Use(const Session& session, std::shared_ptr<Context> context)
        : session_(session), context_(std::move(context)) {}
    ~Use() {
      if (!session_.is_closed()) return;  // the session has a reference, so this is not the last
      const GilReleased released;
      context_.reset();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Context* operator->() const { return context_.get(); }
    // For calls that may go on after the wait for them was left.
    [[nodiscard]] const std::shared_ptr<Context>& shared() const { return context_; }

   private:
    const Session& session_;
    std::shared_ptr<Context> context_;
  };

  explicit Session(std::unique_ptr<Context> context);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The context; raises Closed if there is none any more. The GIL is held.
  [[nodiscard]] Use context() const {
    if (context_ == nullptr) raise_closed();
    return {*this, context_};
  }
  [[nodiscard]] bool is_closed() const { return context_ == nullptr; }
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
  std::shared_ptr<Context> take();

  std::shared_ptr<Context> context_;
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
