// prepared: an operation that runs many times with the same arguments. MPI calls it a persistent
// operation: MPI_Allreduce_init makes one, and MPI_Start, MPI_Wait and MPI_Request_free take it.
//
//   weft::Prepared step = *context->prepare({.collective = weft::Collective::allreduce,
//                                            .input = weft::in(x, n), .output = weft::out(y, n)});
//   for (...) {
//     fill(x);
//     if (weft::Status done = step.run(); !done.ok()) ...
//   }
//
// The arguments are checked once, by prepare(). A run has its place in the order of operations, as
// a call has. Other ranks may run the operation prepared, or call it. A run uses the graph that is
// set when it begins. Counts, ranks and weights are copied by prepare(). The memory is the
// caller's. It must stay valid, and stay host or GPU memory as it was, until the object is gone.
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
