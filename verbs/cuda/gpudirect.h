// gpudirect: GPU memory as network interfaces reach it (GPUDirect RDMA).
//
// The engine names it by addresses of the heap that stand for it (shared.h). A program that hands
// GPU memory to network interfaces itself, as NCCL does, names it by the GPU's own addresses, and
// exports it for as long as interfaces use it:
//
//   ExportedMemory exported = *ExportedMemory::of(x, bytes, dma_buf, 0);
//   interface.expose({x, bytes});                              // asks memory_for_devices()
//   … flush_rdma_writes(gpu, reader);                         // behind what has arrived, before kernels
//
// Threads: any thread may call every function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "verbs/base/base.h"
#include "verbs/cuda/gpu_memory.h"
#include "verbs/cuda/shared.h"

namespace weft {

class ExportedMemory {
 public:
  // Exports [memory, memory+bytes), and the rest of its first and last page. `dma_buf`: a
  // descriptor of a dma-buf in which `memory` is at `offset`; the object has one of its own. -1:
  // there is none, and nvidia-peermem has to find the memory.
  static Result<ExportedMemory> of(void* memory, std::size_t bytes, int dma_buf,
                                   std::uint64_t offset);
  ExportedMemory() = default;
  ExportedMemory(ExportedMemory&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  ExportedMemory& operator=(ExportedMemory&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;
  ~ExportedMemory();

 private:
  std::uint64_t number_ = 0;  // 0: nothing
};

// Whether the address is GPU memory for network interfaces: exported, or a device alias of this
// process. Costs little where there is none.
[[nodiscard]] bool is_for_devices(const void* address);
// [address, address+bytes) of such memory, whole pages. Nothing: it is none.
[[nodiscard]] std::optional<ForDevices> memory_for_devices(const void* address, std::size_t bytes);
// Copies it, or host memory. Waits for it.
[[nodiscard]] Status copy_for_devices(std::span<std::byte> to, const std::byte* from);

// GPU memory of this process for what network interfaces bring, named by an address that stands for
// it.
class ReceiveBuffer {
 public:
  // `unavailable`: no GPU was offered to peers, the GPU cannot tell when what arrived is there, or a stream
  // is held just now, and the driver would wait for it. `exhausted`: there is much of it already.
  static Result<std::shared_ptr<ReceiveBuffer>> make(std::size_t bytes);
  virtual ~ReceiveBuffer() = default;
  [[nodiscard]] virtual std::byte* address() const = 0;
};

// What network interfaces have written to memory of this GPU is seen by what the GPU `reader` begins
// after this returns. Costs nothing where the GPU keeps that order by itself. `unavailable`: it cannot
// be had.
[[nodiscard]] Status flush_rdma_writes(const GpuMemory& gpu, int reader);
// The same for the memory for which a device alias of this process stands, found by behind(). Nothing is to
// be done for those of peers.
[[nodiscard]] Status flush_rdma_writes(const void* alias, const Behind& there);

}  // namespace weft
