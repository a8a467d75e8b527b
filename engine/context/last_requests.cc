// last_requests: comparing.
#include "engine/context/last_requests.h"

#include "engine/context/graph_edges.h"
#include "engine/gpu/gpu.h"

namespace weft {
namespace {

// Whether a Last can hold the whole request. A request with counts, for example, does not fit.
bool is_simple(const Request& request) {
  const NeighborWeights* weights = request.weights;
  const bool are_weights_simple =
      weights == nullptr || ((weights->names_all() || weights->names_none()) && !weights->push_sum);
  return !request.stream && request.counts.empty() && request.receive_counts.empty() &&
         are_weights_simple && !is_of_some_ranks(request.collective) &&
         request.collective != Collective::hierarchical_neighbor_allreduce;
}

}  // namespace

bool LastRequests::repeats(LaneSlot& slot, const Request& request, std::uint64_t plans) const {
  const Last& last = last_[slot.channel - 1];
  const bool names_all = request.names_all_peers();
  const bool is_same = last.is_valid && last.collective == request.collective &&
                       last.op == request.op && last.algorithm == request.algorithm &&
                       last.input == request.input && last.root == request.root &&
                       last.output == request.output && last.names_all == names_all &&
                       last.bindings == slot.bindings && last.plans == plans && is_simple(request);
  if (!is_same || !is_on_host(request)) return false;
  return !names_all || GraphEdges::rebind(slot.invocation, *request.weights);
}

void LastRequests::remember(const LaneSlot& slot, const Request& request, std::uint64_t plans) {
  last_[slot.channel - 1] = {is_simple(request),
                             request.collective,
                             slot.bindings,
                             request.op,
                             plans,
                             request.algorithm,
                             request.input,
                             request.root,
                             request.output,
                             request.names_all_peers()};
}

void LastRequests::forget() {
  for (Last& last : last_) last.is_valid = false;
}

}  // namespace weft
