// request: a weft_request as the C++ API takes it.
#pragma once

#include <weft/c/types.h>
#include <weft/types.h>

#include <vector>

#include "bindings/c/call.h"

namespace weft::c {

// A Request, and the weights that it points to. It stays where it is.
struct Converted {
  Converted() = default;
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;

  Request request;
  NeighborWeights weights;
  std::vector<NeighborWeight> sources, destinations;
};

// Checks what C cannot: numbers of operations, types and operators, and pointers to arrays. Members
// that the operation does not use are not read.
Status convert(const weft_request& from, Converted& to);

}  // namespace weft::c
