// compressed: operations whose tensors travel in fewer bytes (Request::compression). Only encoded bytes
// travel, by the plans of operations that move bytes:
//
//   neighbor_allreduce   encode x ► neighbor_allgather ► y = w_self x + sum of w_j decoded x_j
//   allreduce            encode x by blocks ► alltoall ► add up the own block, encode the sum
//                                           ► allgather ► decode all blocks into y
//
// This is what the algorithm `split` does with tensors as they are. Every other one would encode sums anew at each
// of its steps, and lose something each time. The two operations of an allreduce are admitted together, so they have the same places in the order
// of all ranks; the second one's gate opens when the first has ended. All ranks decode the same
// bytes, so all have the same result to the bit. The caller encodes; who ends an operation decodes.
//
// Internal to the module.
#pragma once

#include <functional>
#include <memory>

#include "engine/compress/compress.h"
#include "engine/config/config.h"
#include "engine/context/binder.h"
#include "engine/context/device_binder.h"
#include "engine/operation/operation.h"

namespace weft {

// Belongs to the holder of the lane's token.
class Compressed {
 public:
  Compressed(const Config& config, Binder& binder, DeviceBinder::Operations operations)
      : config_(config), binder_(binder), operations_(std::move(operations)) {}

  // Binds the request, and admits the operation that comes before it. invalid_argument: an operation, a
  // type or weights that cannot be compressed. unavailable: memory of a GPU.
  [[nodiscard]] Status bind(const Request& request, Operation& operation);
  // The checks of bind() that need no token.
  [[nodiscard]] static Status check(const Request& request);

 private:
  class Neighbors;
  class Blocks;
  class Sums;

  [[nodiscard]] Status bind_neighbors(const Request& request, Operation& operation);
  [[nodiscard]] Status bind_allreduce(const Request& request, Operation& operation);

  const Config& config_;
  Binder& binder_;
  const DeviceBinder::Operations operations_;
  std::shared_ptr<Encodings> encodings_;  // from the first use on
};

}  // namespace weft
