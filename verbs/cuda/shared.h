// shared: GPU memory that other processes of this machine read where it is (CUDA IPC).
//
// A DeviceAlias is a range of the heap's addresses without pages, which stands for GPU memory. It is
// named to peers as any memory of the heap. Who has to read it asks behind() where it is:
//
//   owner:   DeviceAlias here = DeviceAlias::of(gpu, x, bytes);      // send here.address()
//   reader:  behind(own_gpu, address, bytes)->data           // an address for kernels of own_gpu
//
// Not every process can read the memory of every GPU: a container, a virtual machine, or a GPU
// without a link may forbid it. So a process offers each of its GPUs on its heap's board
// (offer_gpu()), the others try to read a small allocation of it once (try_gpus_of()), and what they
// found is on their boards (is_read_by()). Nobody waits for the others: until a peer has tried, its
// answer is no.
//
// The memory behind a device alias may not be freed before the readers are done. The allocations of peers
// stay mapped until their owner, at its next new allocation, sees that they are gone, or has more of
// them than a board names.
//
// Threads: any thread may call every function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "verbs/base/base.h"
#include "verbs/cuda/gpu_memory.h"
#include "verbs/memory/memory.h"

namespace weft {

class DeviceAlias {
 public:
  // For [memory, memory+bytes), which lie in one allocation of this GPU. `unavailable`: why other
  // processes cannot map it, as memory of a pool. `exhausted`: the board or the heap has no room.
  static Result<DeviceAlias> of(const GpuMemory& gpu, void* memory, std::size_t bytes);
  DeviceAlias() = default;
  DeviceAlias(DeviceAlias&& other) noexcept { *this = std::move(other); }
  DeviceAlias& operator=(DeviceAlias&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(number_, other.number_);
    return *this;
  }
  DeviceAlias(const DeviceAlias&) = delete;
  DeviceAlias& operator=(const DeviceAlias&) = delete;
  ~DeviceAlias();

  [[nodiscard]] std::byte* address() const { return address_; }

 private:
  std::byte* address_ = nullptr;
  std::size_t number_ = 0;  // on the board
};

// GPU memory as one of this process's contexts reads it.
struct Behind {
  void* data = nullptr;
  // False: `reader` cannot read it, but the GPU of `context` can copy it.
  bool is_for_reader = true;
  int device = 0;
  void* context = nullptr;
};
// The memory for which these bytes stand. Nothing: they are no device alias of this process or a peer
// whose heap is mapped. An error: nothing here can read it, or its owner has given it back.
[[nodiscard]] Result<std::optional<Behind>> behind(const GpuMemory& reader, const void* address,
                                                   std::size_t bytes);
[[nodiscard]] bool is_device_alias(const void* address);
// The same for those of this process alone; costs little where there are none.
[[nodiscard]] bool is_own_alias(const void* address);

// GPU memory as other devices of the machine reach it, such as network interfaces.
struct ForDevices {
  Fd dma_buf;  // of these pages; empty: the driver exports none, and `refusal` says why
  Status refusal;
  std::uint64_t offset = 0;  // of the memory in the dma-buf
  void* pointer = nullptr;   // the GPU's, by which nvidia-peermem finds them
};
// The pages for which [address, address+bytes) stand, whole pages of the heap that lie in a device alias of
// this process, or just around it. Nothing: they are none.
[[nodiscard]] std::optional<ForDevices> pages_behind(const void* address, std::size_t bytes);
// Copies host memory, or that for which an address of this process stands. Waits for it.
[[nodiscard]] Status copy_from_behind(std::span<std::byte> to, const std::byte* from);

// Offers memory of this GPU to the peers, at the first call.
[[nodiscard]] Status offer_gpu(const GpuMemory& gpu);
// Tries, with this GPU, to read what the peer offers and this process has not tried yet; and unmaps
// what the peer has given back.
void try_gpus_of(const std::shared_ptr<const PeerHeap>& peer, const GpuMemory& reader);
// ok, or why the peer does not read memory of this GPU of ours.
[[nodiscard]] Status is_read_by(const GpuMemory& gpu, const PeerHeap& peer);
// A GPU by which this process reads memory of peers; nothing: no device alias of a peer can come, as no
// GPU was offered.
[[nodiscard]] std::optional<GpuMemory> gpu_for_peers();

}  // namespace weft
