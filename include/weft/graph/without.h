// Graphs without some of their ranks: what is left when ranks die or leave.
#pragma once

#include <weft/graph/digraph.h>

#include <span>

namespace WEFT_PUBLIC weft {

// The graph without the edges of the ranks `gone`, which keep their numbers and have self weight 1.
// For each of them, ascending, the ranks that sent to it now send to those that it sent to: every
// receiver gets back the weight that it lost, and every sender gives what it gave. In a ring 3 then
// sends to 5 when 4 is gone.
//  - A doubly stochastic graph stays doubly stochastic. A row-stochastic or column-stochastic one
//    stays that; the self weight takes what no new edge can carry.
//  - A receiver gets about as many new edges as it loses.
//  - If the other ranks reached each other before, they do afterwards. Where the new edges above
//    would not do, w_ij grows by w_ig w_gj / (1 - w_gg) for the rank g that is gone (the stochastic
//    complement of Meyer, 1989).
// Weights are not negative. Errors: a rank outside 0…size-1, or named twice.
Result<Graph> without(const Graph& graph, std::span<const Rank> gone);

// The edges and weights between these ranks alone: rank `ranks[k]` of the graph is rank k of the
// result. Errors: no rank, a rank outside 0…size-1, or named twice.
Result<Graph> among(const Graph& graph, std::span<const Rank> ranks);

}  // namespace weft
