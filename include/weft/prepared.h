// prepared: an operation that is called again and again with the same arguments. MPI calls it a
// persistent operation: what MPI_Allreduce_init makes, and MPI_Start, MPI_Wait and MPI_Request_free
// use.
//
//   weft::Prepared step = *context->prepare({.collective = weft::Collective::allreduce,
//                                            .input = weft::in(x, n), .output = weft::out(y, n)});
//   for (...) {
//     fill(x);
//     if (weft::Status done = step.run(); !done.ok()) ...
//   }
//
// The arguments are checked once, by prepare(). A run is the operation itself: it has its place in the
// order of calls, and meets the same operation of the other ranks, prepared there or not. It uses the
// graph that is set when it begins. Counts, ranks and weights are copied by prepare(). The memory is the
// caller's, and must stay what it is until the object is gone: neither freed nor given to a GPU.
//
// Threads: any thread may call any function. The context may end before the object; later runs
// return `closed`.
#pragma once

#include <weft/handle.h>
#include <weft/status.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace WEFT_PUBLIC weft {

class PreparedOperation;  // internal

class Prepared {
 public:
  Prepared() = default;
  explicit Prepared(std::shared_ptr<PreparedOperation> operation);

  // Runs the operation to its end. invalid_argument while a run that was started is under way; the
  // functions below return the same.
  Status run();
  // Starts a run.
  Result<Handle> start();
  // Waits for the end of the run that was started last, and returns its status. Without one, ok.
  Status wait();
  // As Context::run_for().
  Result<std::optional<Handle>> run_for(std::int64_t patience_ns);

 private:
  std::shared_ptr<PreparedOperation> operation_;
};

}  // namespace weft
