// weights: what the methods of this folder need from W = [w_ij], and why.
//
//  - Rows sum to 1, so that ranks which agree continue to agree.
//  - Columns sum to 1, so that averaging does not change the mean over the ranks, and the mean
//    follows the mean gradient. With other column sums the samples of some ranks would count more
//    than others.
//  - Exact diffusion also needs a symmetric W without eigenvalues at or below -1/3. Along an
//    eigenvector with eigenvalue l, the error evolves by the roots of z^2 - 2 l z + l = 0. For l in
//    (0, 1) their modulus is sqrt(l), which is below 1. At l = -1/3 one root is -1, and below that
//    the models diverge. (The ring of four with uniform weights has exactly -1/3.) Symmetric
//    weights have real eigenvalues from -1 to 1, and (I + W)/2 moves them to 0 … 1. See K. Yuan et
//    al., Exact Diffusion for Distributed Optimization and Learning, part II, 2019.
#pragma once

#include <weft/graph.h>

namespace regression {

// ok, or an invalid_argument that names the first pair of ranks with w_ij != w_ji.
weft::Status check_symmetric(const weft::Graph& graph);

// (I + W)/2: each rank keeps half of its own value.
weft::Result<weft::Graph> halfway(const weft::Graph& graph);

}  // namespace regression
