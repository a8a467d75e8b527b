// GPU memory as the engine's RDMA ports know it (engine/networks), for ports over the script.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "verbs/cuda/cuda.h"
#include "verbs/ib/ib.h"

namespace weft::ib {

enum class ReceiveBuffers : bool { none, made };

inline DeviceMemory memory_of_gpus(ReceiveBuffers receive_buffers) {
  DeviceMemory device;
  device.exporter = [](const void* address, std::size_t bytes) -> Result<std::optional<DmaBuf>> {
    std::optional<ForDevices> found = memory_for_devices(address, bytes);
    if (!found) return std::optional<DmaBuf>();
    return std::optional(
        DmaBuf{std::move(found->dma_buf), found->offset, found->pointer, found->refusal});
  };
  device.copy = copy_for_devices;
  device.has = is_for_devices;
  if (receive_buffers == ReceiveBuffers::none) return device;
  device.receive_buffer = [](std::size_t bytes) -> Result<DeviceMemory::ReceiveBuffer> {
    WEFT_ASSIGN(std::shared_ptr<ReceiveBuffer> made, ReceiveBuffer::make(bytes));
    std::byte* const address = made->address();
    return DeviceMemory::ReceiveBuffer{std::move(made), address};
  };
  return device;
}

}  // namespace weft::ib
