// owned_request: copying.
#include "engine/request/owned_request.h"

namespace weft {

OwnedRequest::OwnedRequest(const Request& request, Bits bits)
    : request_(request),
      counts_(request.counts.begin(), request.counts.end()),
      receive_counts_(request.receive_counts.begin(), request.receive_counts.end()),
      shape_(request.shape.begin(), request.shape.end()),
      group_(request.group.begin(), request.group.end()) {
  if (request_.bits == Bits::automatic) request_.bits = bits;
  request_.counts = counts_;
  request_.receive_counts = receive_counts_;
  request_.shape = shape_;
  request_.group = group_;
  if (request.feedback != nullptr) {
    feedback_ = *request.feedback;
    request_.feedback = &*feedback_;
  }
  if (request.weights == nullptr) return;
  weights_ = *request.weights;
  const auto keep = [](auto& list, std::vector<NeighborWeight>& kept) {
    if (!list) return;
    kept.assign(list->begin(), list->end());
    list = kept;
  };
  keep(weights_.sources, sources_);
  keep(weights_.destinations, destinations_);
  request_.weights = &weights_;
}

}  // namespace weft
