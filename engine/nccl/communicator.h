// communicator: NCCL's communicator of one rank, with a queue on its GPU. Internal to the module.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "engine/nccl/library.h"
#include "engine/nccl/nccl.h"

namespace weft::nccl {

class Communicator {
 public:
  // Waits for the other ranks, until `goes_on` says no or the deadline.
  static Result<std::shared_ptr<Communicator>> make(const Library& library, const UniqueId& id,
                                                    int index, int size, const GpuMemory& gpu,
                                                    Deadline deadline,
                                                    const std::function<bool()>& goes_on);
  // Ends what is under way.
  ~Communicator() { abort(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int device() const { return gpu_.device; }
  [[nodiscard]] GpuQueue& queue() { return *queue_; }
  [[nodiscard]] const Library& library() const { return library_; }
  // Has the operation queued, now or by a thread of NCCL's; false: by that, and check() says when. No
  // other may begin before.
  Result<bool> begin(const NcclJob& job, const void* x, void* y);
  // Whether nothing is being queued; or what has gone wrong.
  [[nodiscard]] Result<bool> check();
  void abort();

 private:
  Communicator(const Library& library, const GpuMemory& gpu, std::shared_ptr<GpuQueue> queue)
      : library_(library), gpu_(gpu), queue_(std::move(queue)) {}

  const Library& library_;
  const GpuMemory gpu_;
  const std::shared_ptr<GpuQueue> queue_;
  std::mutex mutex_;
  Comm comm_ = nullptr;  // null: it was aborted
};

}  // namespace weft::nccl
