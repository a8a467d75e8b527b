// CallerMemory: how one interface registers memory of the caller. Host memory is registered once
// for all interfaces of the device (SharedRegistrations). Memory of another device is registered
// for this interface alone: only its exporter knows such memory, and the registration ends with its
// use.
//
//   memory of another device   as the dma-buf that its exporter gives
//   host memory                as SharedRegistrations has it, or registers it
//   what is refused            an error that says why: a sender then copies it to memory of ours
//
// Threads: as RegistrationBackend. Owner: the IbInterface. Internal to the module.
#pragma once

#include <utility>

#include "verbs/ib/ib.h"
#include "verbs/ib/shared_device.h"

namespace weft::ib {

class CallerMemory final : public RegistrationBackend {
 public:
  CallerMemory(SharedDevice& device, DmaBufExporter exporter)
      : device_(device), exporter_(std::move(exporter)) {}
  Result<Registered> add(void* address, std::size_t bytes) override;
  Result<Registered> share(void* address, std::size_t bytes) override;
  void remove(void* native) override { device_.registrations().remove(native); }
  // The same as a region for peers; memory of another device for as long as somebody has a share in it.
  Result<std::shared_ptr<const ExposedMemory>> expose(std::span<std::byte> memory);

 private:
  // Nothing, if it is host memory.
  Result<std::optional<Registered>> add_dma_buf(void* address, std::size_t bytes);

  SharedDevice& device_;
  DmaBufExporter exporter_;
};

}  // namespace weft::ib
