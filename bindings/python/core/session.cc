// session: opening, closing, and the register of what is open.
#include "bindings/python/core/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/python/core/errors.h"
#include "bindings/python/core/gil.h"
#include "bindings/python/core/waiting.h"

namespace weft::python {
namespace {

// The open sessions. The GIL guards the list. It is never destroyed: threads may outlive main().
std::vector<Session*>& open_sessions() {
  static auto* const sessions = new std::vector<Session*>();
  return *sessions;
}

}  // namespace

Session::Session(std::unique_ptr<Context> context)
    : opened_(std::make_shared<Opened>(std::move(context))),
      rank_(opened_->context->rank()),
      size_(opened_->context->size()),
      has_no_thread_(opened_->context->config().progress == ProgressMode::waiter),
      graph_(opened_->context->graph()) {
  open_sessions().push_back(this);
}

void Session::raise_closed() {
  raise(Status(Code::closed, "the context was closed"));
}

const Context::Placement& Session::placement() {
  const Use use = context();
  if (!placement_) {
    placement_ = check(interruptible<Result<Context::Placement>>(
        [held = use.shared()] { return held->placement(); }));
  }
  return *placement_;
}

void Session::set_graph(const Graph& graph, bool weighted) {
  const Use use = context();
  check(interruptible<Status>(
      [held = use.shared(), graph, weighted] { return held->set_graph(graph, weighted); }));
  graph_ = graph;
}

std::shared_ptr<Opened> Session::take() {
  std::erase(open_sessions(), this);
  return std::exchange(opened_, nullptr);
}

Session::~Session() {
  std::shared_ptr<Opened> last = take();
  if (last == nullptr) return;
  const GilReleased released;
  last.reset();
}

void Session::close() {
  std::shared_ptr<Opened> last = take();
  if (last == nullptr) return;
  // The task below outlives this function if a signal ends the wait, and then destroys the Context.
  (void)interruptible<bool>([last = std::move(last)]() mutable {
    last.reset();
    return true;
  });
}

void close_all_sessions() {
  while (!open_sessions().empty()) open_sessions().back()->close();
}

}  // namespace weft::python
