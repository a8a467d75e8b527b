// gpu: operations on memory of GPUs.
//
// The engine reads and writes host memory. What it is given for memory of a GPU is one of two:
//
// A stand-in, if all peers of the operation that are on this machine read the GPU's memory (CUDA IPC),
// and the network interfaces on the way to the others do (GPUDirect RDMA). It names the memory and has no
// bytes. All pieces are then combined by GPUs (Combiner), each of which
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
// A third way is NCCL, if all ranks of the operation vote for it (take_turn()): then no plan runs, and
// the operands stay where they are.
//
// With blocks, too, the GPU that has the result adds up large pieces if Config::gpu_sums allows it. It
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
#include "engine/lane/lane.h"
#include "engine/nccl/nccl.h"
#include "verbs/base/base.h"

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
struct StageOptions {
  HoldsStream holds = HoldsStream::yes;
  GpuSums sums = GpuSums::automatic;
  bool shares = true;                 // stand-ins may be used (Config::gpu_ipc)
  bool lends = true;                  // network interfaces may read them (Config::gpu_rdma)
  std::int64_t deadline_ms = 60'000;  // after which no stream is held any more
  bool may_take_turn = false;         // take_turn() follows begin()
  // Smaller operations go through blocks: starting kernels on all ranks takes longer (docs/gpu.md).
  std::size_t least = std::size_t{1} << 20;
  bool is_there = false;  // the operands can be used at once, whatever streams have
};

// Whether an operand could be memory of a GPU: something has loaded the driver.
[[nodiscard]] bool may_have_gpu_memory();

// Whether no operand of the request is memory of a GPU. False if the driver cannot tell.
[[nodiscard]] bool is_on_host(const Request& request);

// The operands of an operation, or of a group of them, that are memory of GPUs.
class GpuStage : public DeviceOperands {
 public:
  // The operation is behind what is queued in its stream now. Else begin() and leave() do this.
  //
  // invalid_argument: the stream is being captured into a graph. unavailable: kernels were asked for
  // and there are none.
  virtual Status follow() = 0;
  // Puts stand-ins or blocks in the place of these operands, in the requests that find() was called
  // with, and begins to copy what has to be copied. The operation exchanges messages with the ranks
  // of `in` and `out`. They live as long as the stage. Errors of follow(), and exhausted: memory cannot
  // be pinned.
  virtual Status begin(std::span<Request> requests, std::span<Contact* const> in,
                       std::span<Contact* const> out) = 0;
  // The same, but operands of large requests stay where they are, for operations that take memory of
  // GPUs themselves: those wait only until the gate opens.
  virtual Status leave(std::span<Request> requests) = 0;
  // Whether no request has StageOptions::least bytes.
  [[nodiscard]] virtual bool is_small() const = 0;
  // Where the first input is on its GPU, if a stand-in is in its place. Null: it has a block.
  [[nodiscard]] virtual const void* input_on_gpu() const = 0;
  // The GPU whose memory all operands of the operation are; nothing: there is no such one.
  [[nodiscard]] virtual std::optional<GpuMemory> only_gpu() const = 0;
  // How to know when something is over, for turns.
  [[nodiscard]] virtual std::function<void()> wake() const = 0;
  // What is queued in the stream from now on waits for the operation's end, if the options say so. Else
  // the last function of these does this.
  virtual Status hold() = 0;
  // After begin(), if the options say so: the operation waits for the votes of all ranks, and runs by
  // NCCL if that is the turn's way. Null: it does not. `count` gives the turn its votes, if they are
  // there.
  virtual Status take_turn(std::shared_ptr<NcclTurn> turn,
                           std::function<void(NcclTurn&)> count) = 0;
};
// nullptr: the operation needs no stage. All requests have the stream of the first one; they have none
// when this returns. Input and output that are one tensor have different addresses then, which nobody
// may touch: the plan is not one in place. `rank`: of the caller; some ranks of an operation have no
// result.
//
// invalid_argument: a stream was given for memory that is no GPU's.
[[nodiscard]] Result<std::shared_ptr<GpuStage>> find_gpu_operands(
    std::span<Request> requests, Rank rank, const StageOptions& options,
    const std::shared_ptr<GpuBell>& bell);

// A combiner for operations on memory of the host, to which peers send memory of GPUs.
class GpuSpare final : public CombinerSource {
 public:
  GpuSpare() = default;
  // Before the first operation.
  void attach(const std::shared_ptr<GpuBell>& bell) { bell_ = bell; }
  Combiner* combiner() override;

 private:
  std::mutex mutex_;
  std::shared_ptr<GpuBell> bell_;
  std::shared_ptr<DeviceOperands> stage_;
};

// What this process has copied.
struct GpuUsage {
  std::uint64_t copies_out = 0, copies_in = 0;
  std::uint64_t bytes_out = 0, bytes_in = 0;
  std::uint64_t bytes_inside = 0;
  std::uint64_t launches = 0;  // of kernels
  std::uint64_t pinned_bytes = 0;
  // Operations.
  std::uint64_t with_stand_ins = 0, with_blocks = 0, by_nccl = 0;
};
[[nodiscard]] GpuUsage gpu_usage();
// For people, how memory of GPUs has travelled so far; empty: there was none.
[[nodiscard]] std::string describe_gpu_memory();

// For people, whether the peer reads memory of this process's GPUs where it is; empty: none was used yet, or
// the peer is on another machine.
[[nodiscard]] std::string describe_gpu_path(const Contact& peer);

// Copies memory, each end of which may be the host's or a GPU's: behind what is queued in the default
// streams. Waits for it, at most so long: timed_out.
[[nodiscard]] Status copy_memory(void* to, const void* from, std::size_t bytes,
                                 std::int64_t patience_ms);

// ok, or an error that names an operand in memory of a GPU, for what takes host memory alone.
[[nodiscard]] Status check_host_memory(std::string_view what, const void* pointer);

}  // namespace weft
