// Registrar: registers memory with a device, for all interfaces on it. How depends on the memory,
// and on what the device and the kernel can do.
//
//   memory of another device   as a dma-buf, where libibverbs and the kernel register such; else by
//                              its pointer, for which the kernel needs nvidia-peermem
//   host memory                pinned; or on demand, once the system refuses to pin more and the
//                              device sends, writes and reads on demand
//
// Pinning is tried first, because a page on demand may have to be brought while a peer waits. On
// demand is tried before other registrations are dropped to make room, because those would be
// pinned again at their next use, over and over.
//
// Threads: all functions from several at once. Owner: the SharedDevice. Internal to the module.
#pragma once

#include <atomic>
#include <string>

#include "verbs/ib/ib.h"
#include "verbs/ib/objects.h"
#include "verbs/memory/memory.h"

namespace weft::ib {

class Registrar final : public RegistrationBackend {
 public:
  // `name` is that of the device, for errors.
  Registrar(const Library& library, ibv_context* context, ibv_pd* domain, std::string name);
  // Host memory of the caller.
  Result<Registered> add(void* address, std::size_t bytes) override;
  void remove(void* native) override;
  // Host memory with these rights.
  Result<Owned<ibv_mr>> add_host(void* address, std::size_t bytes, int access);
  // Memory of another device, for ourselves or for peers, too.
  enum class For : std::uint8_t { us, peers };
  Result<Owned<ibv_mr>> add_device(void* address, std::size_t bytes, const DmaBuf& buffer,
                                   For whom = For::us);
  // ok, or why the device registers no dma-bufs, as far as it says so without one.
  [[nodiscard]] Status check_dma_bufs() const;
  // Counts memory of another device that cannot be registered; returns `why`.
  Status refused(const Status& why);

  // Whether on demand can be had for these rights.
  [[nodiscard]] bool pages_on_demand(int access) const;
  // What was done otherwise than by pinning, for people: "2 regions on demand"; else empty.
  [[nodiscard]] std::string exceptions() const;

 private:
  const Library& library_;
  ibv_pd* domain_;
  std::string name_;
  std::uint32_t on_demand_caps_ = 0;  // of reliable connections
  std::atomic<std::uint64_t> on_demand_ = 0;
  std::atomic<std::uint64_t> dma_bufs_ = 0;
  std::atomic<std::uint64_t> by_pointer_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;  // memory of other devices
};

}  // namespace weft::ib
