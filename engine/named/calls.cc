// calls: the functions of Named.
#include <utility>

#include "engine/named/named.h"

namespace weft {
namespace {

Status no_object() {
  return Status(Code::invalid_argument, "this Named is empty; Context::named() makes one");
}

Request of_all(Collective collective, const Input& x, const Output& y) {
  Request request;
  request.collective = collective;
  request.input = x;
  request.output = y;
  return request;
}

Status ended(Result<Handle> handle) {
  return handle.ok() ? handle->wait() : handle.status();
}

}  // namespace

Named::Named(std::shared_ptr<NamedObject> object) : object_(std::move(object)) {}

Result<Handle> Named::start(std::string_view name, const Request& request, int priority) {
  return start_group(name, {&request, 1}, priority);
}

Status Named::run(std::string_view name, const Request& request, int priority) {
  return ended(start(name, request, priority));
}

Result<Handle> Named::start_group(std::string_view name, std::span<const Request> requests,
                                  int priority) {
  if (is_forked_child()) return forked_child_error("start");
  if (object_ == nullptr) return no_object();
  return object_->submit(name, requests, priority);
}

Result<Handle> Named::allreduce_start(std::string_view name, const Input& x, const Output& y,
                                      ReduceOp op) {
  Request request = of_all(Collective::allreduce, x, y);
  request.op = op;
  return start(name, request);
}

Status Named::allreduce(std::string_view name, const Input& x, const Output& y, ReduceOp op) {
  return ended(allreduce_start(name, x, y, op));
}

Result<Handle> Named::broadcast_start(std::string_view name, const Input& x, const Output& y,
                                      Rank root) {
  Request request = of_all(Collective::broadcast, x, y);
  request.root = root;
  return start(name, request);
}

Status Named::broadcast(std::string_view name, const Input& x, const Output& y, Rank root) {
  return ended(broadcast_start(name, x, y, root));
}

Result<Handle> Named::neighbor_allreduce_start(std::string_view name, const Input& x,
                                               const Output& y, const NeighborWeights& weights) {
  Request request = of_all(Collective::neighbor_allreduce, x, y);
  request.weights = &weights;
  return start(name, request);
}

Status Named::neighbor_allreduce(std::string_view name, const Input& x, const Output& y,
                                 const NeighborWeights& weights) {
  return ended(neighbor_allreduce_start(name, x, y, weights));
}

Result<Rank> Named::join() {
  if (is_forked_child()) return forked_child_error("join");
  if (object_ == nullptr) return no_object();
  return object_->join();
}

Status Named::set_graph(Graph graph, bool weighted) {
  if (object_ == nullptr) return no_object();
  return object_->set_graph(graph, weighted);
}

Result<Named::Usage> Named::usage() const {
  if (object_ == nullptr) return no_object();
  return object_->usage();
}

Status Named::end() {
  if (is_forked_child()) return forked_child_error("end");
  if (object_ == nullptr) return no_object();
  return object_->end();
}

}  // namespace weft
