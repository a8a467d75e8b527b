// feedback: error feedback (Seide et al. 2014). What compression takes from a tensor is added to the next one.
//
//   weft::ErrorFeedback feedback;  // one for each tensor, kept from step to step
//   context->run({.collective = weft::Collective::allreduce, .input = weft::in(x, n),
//                 .output = weft::out(y, n), .compression = weft::Compression::sketch,
//                 .feedback = &feedback});
//
// The residual r has the tensor's number of elements, and is 0 at first. A call encodes x + r instead of x, and
// r becomes x + r - what the receivers decode. So the sum of what arrives over many steps follows the sum of
// what was given, and is never farther from it than r.
//
// - neighbor_allreduce: the neighbors get x + r. This rank's own term is x.
// - allreduce: this rank also encodes the sum (or mean) of its block, for all. What that loses is added to
//   this block of r (a mean's times the number of ranks), as all other ranks get it from here alone.
// - An element of r that is not finite becomes 0, so that one NaN does not stay for ever.
// - r belongs to one tensor: a call with another number of elements is invalid_argument; clear() begins anew.
//   So is a call while the last one is under way.
// - After an operation that has failed, r means nothing: clear() it.
//
// Threads: any thread may call any function. ErrorFeedback is a handle: copies name the same residual.
#pragma once

#include <weft/status.h>

#include <memory>
#include <vector>

namespace WEFT_PUBLIC weft {

class Residual;  // the implementation; internal

class ErrorFeedback {
 public:
  ErrorFeedback();

  // What the receivers have not got yet; empty before the first use. invalid_argument while an operation
  // uses it; so is clear().
  [[nodiscard]] Result<std::vector<float>> residual() const;
  Status clear();

  [[nodiscard]] const std::shared_ptr<Residual>& shared() const { return residual_; }  // internal

 private:
  std::shared_ptr<Residual> residual_;
};

}  // namespace weft
