// weights: what the methods of this folder ask of W = [w_ij], and why.
//
//  - Rows sum to 1: ranks that agree go on agreeing.
//  - Columns sum to 1: averaging leaves the mean over the ranks as it is, so that the mean follows
//    the mean gradient. Other column sums would count some ranks' samples more than others'.
//  - Exact diffusion also needs W symmetric, with no eigenvalue at or below -1/3. Along an
//    eigenvector with eigenvalue l, its correction answers by the roots of z^2 - 2 l z + l = 0. For
//    l in (0, 1) their modulus is sqrt(l), below 1; at l = -1/3 one of them is -1, and beyond it
//    the models swing apart. (The ring of four with uniform weights has exactly -1/3.) Symmetric
//    weights have real eigenvalues, from -1 to 1, and (I + W)/2 moves them to 0 to 1. K. Yuan et
//    al., Exact Diffusion for Distributed Optimization and Learning, part II, 2019.
#pragma once

#include "topology/graph/graph.h"

namespace regression {

// ok, or an invalid_argument that names the first pair of ranks with w_ij != w_ji.
weft::Status check_symmetric(const weft::Graph& graph);

// (I + W)/2: half of what a rank holds stays.
weft::Result<weft::Graph> halfway(const weft::Graph& graph);

}  // namespace regression
