// reducer: the combine of data that are there, by a GPU or by the caller's thread. Executions and operations
// by name combine by it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "engine/kernels/kernels.h"

namespace weft {

// Who combines pieces in place of the lane's thread: a GPU. Several lanes may ask at once.
class Reducer {
 public:
  // A combine that is under way. Its terms and its destination stay as they are until it is over.
  class Work {
   public:
    virtual ~Work() = default;
    [[nodiscard]] virtual bool is_over() = 0;
    [[nodiscard]] virtual Status status() = 0;
    virtual void wait() = 0;
    // Whether what the reducer begins later finds the result, although this is not over. Work of one
    // operation then begins without a wait in between.
    [[nodiscard]] virtual bool is_in_order() const = 0;
  };
  // destination := the reduction over the terms, with the bits of combine().
  struct Job {
    DataType type;
    Reduction reduction;
    bool is_copy;  // of the one term; its weight is not used
    std::span<const Term> terms;
    std::byte* destination;
    std::size_t count;
    double divisor = 1.0;  // of a weighted sum
    bool is_last;          // nobody reads the destination before the operation has ended
  };
  virtual ~Reducer() = default;
  // Null: this is for the CPU.
  [[nodiscard]] virtual Result<std::unique_ptr<Work>> begin(const Job& job) = 0;
  // Whether the address is a name of memory that a CPU cannot touch: of this rank's own operands, or
  // of a peer's. Such memory is sent as if it were in the shared heap, and only a reducer reads or
  // writes it.
  [[nodiscard]] virtual bool is_in_device_memory(const void* address) const = 0;
  // Scratch for one lane's part of the operation, which lives as long as the reducer. Null: the lane
  // has its own.
  [[nodiscard]] virtual Result<std::byte*> scratch(std::size_t bytes) = 0;
};

// Does the job with this thread. `function`: of the type and the reduction; a copy needs none.
void reduce_here(const Reducer::Job& job, CombineFunction function, StoreKind store);
// Has the job done by the reducer, or by this thread if the reducer is null or leaves it to the CPU. Null:
// it is done.
[[nodiscard]] Result<std::unique_ptr<Reducer::Work>> reduce(Reducer* reducer,
                                                            const Reducer::Job& job);

}  // namespace weft
