// Making a communicator, and operations on it.
#include "engine/nccl/communicator.h"

#include <fmt/core.h>

#include <chrono>
#include <thread>

namespace weft::nccl {
namespace {

constexpr auto kNap = std::chrono::milliseconds(1);

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::make(const Library& library, const UniqueId& id,
                                                         int index, int size, const GpuMemory& gpu,
                                                         Deadline deadline,
                                                         const std::function<bool()>& goes_on) {
  WEFT_ASSIGN(std::shared_ptr<GpuQueue> queue, GpuQueue::own(gpu));
  const std::shared_ptr<Communicator> made(new Communicator(library, gpu, queue));
  CommConfig config;
  WEFT_RETURN_IF_ERROR(queue->call([&](void*) {
    return status_of(library, library.init(&made->comm_, size, id, index, &config),
                     "ncclCommInitRankConfig");
  }));
  for (;;) {
    Answer error = kSuccess;
    const Answer answer = library.async_error(made->comm_, &error);
    WEFT_RETURN_IF_ERROR(status_of(library, answer, "ncclCommGetAsyncError"));
    if (error == kSuccess) return made;
    WEFT_RETURN_IF_ERROR(status_of(library, error, "ncclCommInitRankConfig"));
    if (!goes_on()) return Status(Code::closed, "the context was closed");
    if (deadline.passed())
      return Status(Code::timed_out, "the other ranks have not made a communicator in time");
    std::this_thread::sleep_for(kNap);
  }
}

Result<bool> Communicator::begin(const NcclJob& job, const void* x, void* y) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Status(Code::closed, "the communicator has ended");
  const int type = *type_number(job.type);
  Answer answer = kSuccess;
  WEFT_RETURN_IF_ERROR(queue_->call([&](void* stream) {
    if (job.collective == Collective::broadcast) {
      answer = library_.broadcast(x, y, job.count, type, job.root, comm_, stream);
      return status_of(library_, answer, "ncclBroadcast");
    }
    const int op = *reduction_number(job.op, job.type);
    answer = library_.allreduce(x, y, job.count, type, op, comm_, stream);
    return status_of(library_, answer, "ncclAllReduce");
  }));
  return answer == kSuccess;
}

Result<bool> Communicator::check() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Status(Code::closed, "the communicator has ended");
  Answer error = kSuccess;
  const Answer answer = library_.async_error(comm_, &error);
  WEFT_RETURN_IF_ERROR(status_of(library_, answer, "ncclCommGetAsyncError"));
  WEFT_RETURN_IF_ERROR(status_of(library_, error, "NCCL"));
  return error == kSuccess;
}

void Communicator::abort() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  Comm const ended = std::exchange(comm_, nullptr);
  (void)queue_->call([&](void*) {
    (void)library_.abort(ended);
    return Status();
  });
}

}  // namespace weft::nccl
