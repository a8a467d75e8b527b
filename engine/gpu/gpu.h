// gpu: operations on GPU memory.
//
// The engine reads and writes host memory. What it is given for GPU memory is one of two:
//
// A device alias, if all peers of the operation that are on this machine read the GPU's memory (CUDA IPC),
// and the network interfaces on the way to the others do (GPUDirect RDMA). It names the memory and has no
// bytes. All pieces are then combined by GPUs (Reducer), each of which
// reads its neighbors' tensors where they are and writes the result where it belongs.
//
// Else a pinned block of the shared heap, which peers and network interfaces read as any memory of the
// heap:
//
//   caller's stream ──event──► copy x ► block ──opens the gate──► the operation ──► copy block ► y
//                                                                                        │
//   caller's stream ◄──── what was queued after the call goes on ◄───────────────────────┘
//
// The operation takes its place in the order of all operations at the call; only its data wait.
// Nothing waits on the host: the copies and the stream are told by events of the driver.
//
// If all ranks run the operation by NCCL (engine/context/nccl_operands.h), no plan runs, and the operands
// stay where they are.
//
// With blocks, too, the GPU that has the result adds up large pieces if Config::gpu_reduce allows it. It
// reads its own input where it is, and the others' blocks over the bus, and writes the result to where
// it belongs, so that nothing is left to copy; or to the block, if the plan reads it from there.
#pragma once

#include <weft/config.h>
#include <weft/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "engine/gpu/host_copy.h"
#include "engine/gpu/staged.h"
#include "engine/lane/lane.h"
#include "verbs/base/base.h"
#include "verbs/cuda/cuda.h"

namespace weft {

// Rings for a context when a copy is done. Threads of the driver hold it, so it may live longer than
// the context.
class GpuBell {
 public:
  explicit GpuBell(std::function<void()> wake) : wake_(std::move(wake)) {}
  // Any thread.
  void ring() {
    const std::lock_guard lock(mutex_);
    if (wake_) wake_();
  }
  // From now on ring() has no effect. Waits for one that is under way.
  void silence() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
};

// Whether what is queued in the stream later waits for the operation's end. Operations by name do not
// hold it: ranks submit them in different orders, and each would wait for the one before it in its
// own stream.
enum class HoldsStream : bool { no, yes };
struct GpuOperandOptions {
  HoldsStream holds = HoldsStream::yes;
  GpuReduce reduce = GpuReduce::automatic;
  bool shares = true;                 // device aliases may be used (Config::gpu_ipc)
  bool lends = true;                  // network interfaces may read them (Config::gpu_rdma)
  std::int64_t deadline_ms = 60'000;  // after which no stream is held any more
  // Smaller operations go through blocks: starting kernels on all ranks takes longer (docs/gpu.md).
  std::size_t least = std::size_t{1} << 20;
  bool is_there = false;  // the operands can be used at once, whatever streams have
};

// Whether an operand could be GPU memory: something has loaded the driver.
[[nodiscard]] bool may_have_gpu_memory();

// Whether no operand of the request is GPU memory. False if the driver cannot tell.
[[nodiscard]] bool is_on_host(const Request& request);

// The operands of an operation, or of a group of them, that are GPU memory.
class GpuOperands : public DeviceOperands {
 public:
  // The operation is behind what is queued in its stream now. First of these functions.
  //
  // invalid_argument: the stream is being captured into a graph. unavailable: kernels were asked for
  // and there are none.
  virtual Status follow() = 0;
  // Puts device aliases or blocks in the place of these operands, in the requests that find() was called
  // with. The operation exchanges messages with the ranks of `in` and `out`. They live as long as the
  // operands. exhausted: memory cannot be pinned.
  virtual Status place(std::span<Request> requests, std::span<PeerConnection* const> in,
                       std::span<PeerConnection* const> out) = 0;
  // Begins to copy the input.
  virtual Status bring() = 0;
  // If the options say so, what is queued in the stream from now on waits until the output has
  // arrived, or for let_go(). Last of these functions, as what they queue must not wait.
  virtual Status hold() = 0;
  virtual void let_go() = 0;
  // Places and brings, but operands of large requests stay where they are, for operations that take
  // GPU memory themselves: those wait only until the input has arrived.
  virtual Status leave(std::span<Request> requests) = 0;
  // Whether no request has GpuOperandOptions::least bytes.
  [[nodiscard]] virtual bool is_small() const = 0;
  // Where the first input is on its GPU, if a device alias is in its place. Null: it has a block.
  [[nodiscard]] virtual const void* input_on_gpu() const = 0;
  // All operands of the operation, where the caller has them; nothing: they are not on one GPU alone.
  struct OnGpu {
    GpuMemory gpu;
    const void* x = nullptr;
    void* y = nullptr;
    std::optional<Stream> stream;  // behind which they are there; nothing: they are there now
  };
  [[nodiscard]] virtual std::optional<OnGpu> on_one_gpu() const = 0;
};
// nullptr: the operation needs none. All requests have the stream of the first one; they have none
// when this returns. Input and output that are one tensor have different addresses then, which nobody
// may touch: the plan is not one in place. `rank`: of the caller; some ranks of an operation have no
// result.
//
// invalid_argument: a stream was given for memory that is no GPU's.
[[nodiscard]] Result<std::shared_ptr<GpuOperands>> find_gpu_operands(
    std::span<Request> requests, Rank rank, const GpuOperandOptions& options,
    const std::shared_ptr<GpuBell>& bell);

// For operations on host memory, to which peers send GPU memory. A peer names such memory only
// after this process has said that it reads it.
[[nodiscard]] std::function<Reducer*()> gpu_reducer_for_peers(std::shared_ptr<GpuBell> bell);

// What this process has copied.
struct GpuUsage {
  std::uint64_t copies_out = 0, copies_in = 0;
  std::uint64_t bytes_out = 0, bytes_in = 0;
  std::uint64_t bytes_inside = 0;
  std::uint64_t launches = 0;  // of kernels
  std::uint64_t pinned_bytes = 0;
  // Operations.
  std::uint64_t with_aliases = 0, with_blocks = 0, by_nccl = 0;
};
[[nodiscard]] GpuUsage gpu_usage();
// For people, how GPU memory has travelled so far; empty: there was none.
[[nodiscard]] std::string describe_gpu_memory();

// For people, whether the peer reads memory of this process's GPUs where it is; empty: none was used yet, or
// the peer is on another machine.
[[nodiscard]] std::string describe_gpu_path(const PeerConnection& peer);

// Copies memory, each end of which may be the host's or a GPU's: behind what is queued in the default
// streams. Waits for it, at most so long: timed_out.
[[nodiscard]] Status copy_memory(void* to, const void* from, std::size_t bytes,
                                 std::int64_t patience_ms);

// ok, or an error that names an operand in GPU memory, for what takes host memory alone.
[[nodiscard]] Status check_host_memory(std::string_view what, const void* pointer);

}  // namespace weft
