// cuda: GPU memory, by the CUDA driver of this machine.
//
// The driver is libcuda.so.1. Weft is never linked against it, and calls no CUDA runtime. A process
// whose program uses no GPU never loads it: GPU memory exists only where somebody else has
// loaded the driver before. So the question whether a pointer is one of a GPU costs nothing until
// then.
//
//   if (std::optional<GpuMemory> gpu = gpu_memory(x)) …       // not for a CPU
//   auto queue = GpuQueue::out_of(*gpu, stream);              // copies of ours, in order
//   queue->wait_for(stream);                                  // behind what the caller has queued
//   queue->copy_out(host, x, bytes);
//   auto done = queue->mark([] { wake(); });                  // done->is_over()
//
// Threads: every function may be called by any thread; those of a GpuMark and a GpuGate by one at a
// time, except open().
#pragma once

#include <weft/memory.h>
#include <weft/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbs/base/base.h"
#include "verbs/cuda/gpu_memory.h"
#include "verbs/cuda/gpudirect.h"
#include "verbs/cuda/shared.h"

namespace weft {

// Whether this process has loaded the driver, and it can be used. Costs some ten nanoseconds.
[[nodiscard]] bool is_cuda_loaded();
// Nothing: host memory, or none that the driver knows. An error: the driver cannot tell, as after the
// loss of a GPU, so nobody may touch the memory. Memory of Weft's heap is host memory in any case.
[[nodiscard]] Result<std::optional<GpuMemory>> find_gpu_memory(const void* pointer);
// The same where an error counts as nothing.
[[nodiscard]] std::optional<GpuMemory> gpu_memory(const void* pointer);

// A GPU as the driver sees it.
struct GpuDevice {
  int number = 0;
  std::string name;
  std::string address;  // PCI, as the kernel writes it
  int numa_node = -1;   // -1: unknown, or there is one
  std::uint64_t bytes = 0;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  bool has_stream_waits = false;  // a stream can wait for a word of host memory
  bool exports_dma_buf = false;   // for GPUDirect RDMA without nvidia-peermem
  bool has_gpudirect_rdma = false;
  bool settles_rdma_writes = false;  // what network interfaces write can be ordered before kernels
  std::vector<int> reads;  // the other GPUs whose memory its kernels can read, by their numbers
};
// Loads the driver. `unavailable` says what is missing.
[[nodiscard]] Result<std::vector<GpuDevice>> gpu_devices();
// "13.0", or what is missing. Loads the driver.
[[nodiscard]] Result<std::string> cuda_version();

// A point in a queue.
class GpuMark {
 public:
  virtual ~GpuMark() = default;
  // Whether all before it is done. An error of the GPU ends the waiting, too: status() has it.
  [[nodiscard]] virtual bool is_over() = 0;
  [[nodiscard]] virtual Status status() const = 0;
  // Waits until it is over.
  virtual void wait() = 0;
};

// Code for a GPU: a fat binary of nvcc, loaded for one context, for the life of the process.
class GpuCode {
 public:
  // `unavailable`: nothing in the image runs on this GPU. `image` stays as it is.
  static Result<const GpuCode*> load(const GpuMemory& memory, std::span<const std::byte> image);
  virtual ~GpuCode() = default;
  // A kernel by its name, looked up once.
  [[nodiscard]] virtual Result<void*> function(const char* name) const = 0;
};

// A stream of Weft's own: what is queued in it runs in order, beside the streams of others.
class GpuQueue {
 public:
  // A queue for copies from memory of this GPU, behind what is in the stream. Calls with one stream
  // give one queue; calls with different streams may give one, too.
  static Result<std::shared_ptr<GpuQueue>> out_of(const GpuMemory& memory, Stream stream);
  // A queue for copies from memory of this GPU that waits for no stream.
  static Result<std::shared_ptr<GpuQueue>> free_of(const GpuMemory& memory);
  // The queue for copies to memory of this GPU. It is another one: a copy from the GPU may wait for
  // a stream that waits for a copy to the GPU.
  static Result<std::shared_ptr<GpuQueue>> into(const GpuMemory& memory);
  // A queue that nobody else has. Its stream lives as long as the process.
  static Result<std::shared_ptr<GpuQueue>> own(const GpuMemory& memory);
  // Makes the queue for copies to memory of this GPU, and what its marks need, before a stream is held:
  // the driver makes nothing new while another thread waits in it for such a stream.
  static Status prepare(const GpuMemory& memory);
  virtual ~GpuQueue() = default;

  // What is queued here later runs behind what the stream has now. invalid_argument: the stream is
  // being captured into a graph, or belongs to another GPU.
  virtual Status wait_for(Stream stream) = 0;
  virtual Status copy_out(void* host, const void* gpu, std::size_t bytes) = 0;
  virtual Status copy_in(void* gpu, const void* host, std::size_t bytes) = 0;
  // From memory of this GPU to memory of it.
  virtual Status copy_inside(void* to, const void* from, std::size_t bytes) = 0;
  // Runs a kernel on `blocks` blocks of `threads` threads. `arguments` is its one parameter, which is
  // copied.
  virtual Status launch(void* function, unsigned blocks, unsigned threads, void* arguments) = 0;
  // Calls the function with the GPU's context current, so that it can queue work in the stream.
  virtual Status call(const std::function<Status(void* stream)>& function) = 0;
  // A mark behind all that is queued now. `wake` is called by the module's thread when it is over, and
  // must not call CUDA.
  virtual Result<std::unique_ptr<GpuMark>> mark(std::function<void()> wake) = 0;
};

// A word in pinned memory for which a stream waits.
class GpuGate {
 public:
  virtual ~GpuGate() = default;
  // What is queued in the stream from now on runs once the gate is open.
  virtual Status hold(Stream stream) = 0;
  // Lets the stream go on. Any thread.
  virtual void open() = 0;
};
// It opens by itself at `end_ns` (now_ns()), by the module's thread: the driver makes a thread that
// works for the operation wait for another thread that frees memory, and that one waits for all
// streams.
[[nodiscard]] Result<std::unique_ptr<GpuGate>> make_gpu_gate(const GpuMemory& memory,
                                                             std::int64_t end_ns);

// Memory of the shared heap that the driver has pinned, so that copies to and from GPUs run at the
// rate of the bus, and peers read it in place; on the NUMA node of its GPU, if that has room. Blocks are
// kept and used again.
class PinnedBlock {
 public:
  // `gpu`: memory of the GPU that will copy. Others may, too.
  [[nodiscard]] static Result<PinnedBlock> take(std::size_t bytes, const GpuMemory& gpu);
  PinnedBlock() = default;
  PinnedBlock(PinnedBlock&& other) noexcept { *this = std::move(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(node_, other.node_);
    return *this;
  }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  ~PinnedBlock();

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int node_ = -1;  // NUMA node on which it was asked for; -1: any
};

// A copy of GPU memory. Waits for it.
[[nodiscard]] Result<PinnedBlock> copy_to_host(const GpuMemory& gpu, const void* memory,
                                               std::size_t bytes);

// GPU memory that other processes can map. Blocks are kept and used again.
class DeviceBlock {
 public:
  [[nodiscard]] static Result<DeviceBlock> take(std::size_t bytes, const GpuMemory& gpu);
  DeviceBlock() = default;
  DeviceBlock(DeviceBlock&& other) noexcept { *this = std::move(other); }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(gpu_, other.gpu_);
    return *this;
  }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  ~DeviceBlock();

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  GpuMemory gpu_;
};

// The address by which this GPU reads and writes memory of a CPU that is pinned, or memory of a peer's
// heap, which is pinned when it is first asked for. Null: it cannot.
[[nodiscard]] const void* gpu_view(const GpuMemory& gpu, const void* memory, std::size_t bytes);

// What this process has done with GPUs so far, for tests and tools.
struct GpuCounts {
  std::uint64_t copies_out = 0, copies_in = 0;
  std::uint64_t bytes_out = 0, bytes_in = 0;
  std::uint64_t bytes_inside = 0;  // from GPU memory to GPU memory, without kernels
  std::uint64_t launches = 0;      // of kernels
  std::uint64_t pinned_bytes = 0;  // that blocks hold now
};
[[nodiscard]] GpuCounts gpu_counts();

}  // namespace weft
