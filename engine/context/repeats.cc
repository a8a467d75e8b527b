// repeats: comparing.
#include "engine/context/repeats.h"

#include "engine/context/graph_edges.h"
#include "engine/gpu/gpu.h"

namespace weft {
namespace {

// Whether a Last can hold the whole request. A request with counts, for example, does not fit.
bool is_simple(const Request& request) {
  const NeighborWeights* weights = request.weights;
  const bool are_weights_simple =
      weights == nullptr || ((weights->names_all() || weights->names_none()) && !weights->push_sum);
  return !request.stream && !is_compressed(request) && request.counts.empty() &&
         request.receive_counts.empty() && are_weights_simple &&
         !is_of_some_ranks(request.collective) &&
         request.collective != Collective::hierarchical_neighbor_allreduce;
}

}  // namespace

bool Repeats::repeats(LaneSlot& slot, const Request& request) const {
  const Last& last = last_[slot.channel - 1];
  const bool names_all = request.names_all_peers();
  const bool is_same =
      slot.bound != 0 && last.number == slot.bound && last.collective == request.collective &&
      last.op == request.op && last.algorithm == request.algorithm && last.input == request.input &&
      last.root == request.root && last.output == request.output && last.bits == request.bits &&
      last.names_all == names_all && last.needs_all == request.needs_all && is_simple(request);
  if (!is_same || !is_on_host(request)) return false;
  return !names_all || GraphEdges::rebind(slot.bound_call, *request.weights);
}

void Repeats::remember(LaneSlot& slot, const Request& request) {
  if (!is_simple(request)) return;
  slot.bound = new_number();
  last_[slot.channel - 1] = {slot.bound,       request.collective, request.input,
                             request.op,       request.output,     request.algorithm,
                             request.root,     request.bits,       request.names_all_peers(),
                             request.needs_all};
}

}  // namespace weft
