// ib: connects ranks of any machines by RDMA verbs over reliable connections. It is the reference
// transport: the device does writes, reads and compare-and-swaps without the peer's time, which
// other transports have to emulate.
//
// A notice is one RDMA write with immediate. Header and payload land together in that slot of the
// receiver that the immediate names; nothing is copied there. One interface is one port of one
// device. libibverbs is loaded when the first interface is opened: a program starts on a host
// without it, and open_ib() says what is missing.
//
// Both ends of a connection must know each other's queue pairs, so connecting is a conversation of
// datagrams that progress() leads. What is posted meanwhile waits on our side, and connect() itself
// waits for nobody. The pair of addresses (local GID, remote GID) over which the first answer comes
// is the one that is used: reachability is proven, not taken from an index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbs/device/device.h"
#include "verbs/transport/transport.h"

namespace weft {

// Memory of another device as the kernel shares it among devices. Whoever gets a DmaBuf owns the
// descriptor.
struct DmaBuf {
  Fd fd;
  std::uint64_t offset = 0;  // in the dma-buf, of the pointer that was asked for
  // Without a descriptor: the address by which a module of the kernel (nvidia-peermem) finds the memory,
  // and why there is no dma-buf of it.
  void* pointer = nullptr;
  Status refusal{};
};

// Gives the dma-buf that [pointer, pointer+bytes), whole pages, lies in; nothing, if that is host
// memory; or why it cannot be exported. Called by several threads at once.
using DmaBufExporter =
    std::function<Result<std::optional<DmaBuf>>(const void* pointer, std::size_t bytes)>;

// How a program handles memory of another device, such as a GPU. Set exporter and copy or neither;
// without them all memory is the host's.
struct DeviceMemory {
  DmaBufExporter exporter;
  // Copies memory of either kind into host memory, if it cannot be sent from where it is.
  std::function<Status(std::span<std::byte> to, const std::byte* from)> copy;
  // Whether the address is not the host's; empty: any may be such.
  std::function<bool(const void* address)> has{};
  // Memory of a device for so many bytes of what arrives from such memory of peers, named by an address as
  // above; empty: all of that is written to host memory.
  struct ReceiveBuffer {
    std::shared_ptr<void> owner;
    std::byte* address = nullptr;
  };
  std::function<Result<ReceiveBuffer>(std::size_t bytes)> receive_buffer{};
};

struct IbOptions {
  std::string device;  // as the kernel names it: "mlx5_0"
  int port = 1;
  int gid_index = -1;                              // -1: by score and reachability
  std::size_t piece_bytes = std::size_t{1} << 18;  // largest payload of a piece
  std::uint32_t queue_pairs = 2;                   // per peer; channels are dealt out to them
  std::uint32_t send_depth = 256;                  // work requests under way per queue pair
  std::uint32_t receive_depth = 8192;  // messages of all peers that wait for our next turn
  int mtu = 0;                         // bytes; 0: the smaller of both ports'
  int traffic_class = 0;
  int service_level = 0;
  // RoCE v2: the UDP source port of the first queue pair of each peer, 49152 to 65535. The other
  // queue pairs take the ports after it, so that switches which choose among ways by this port
  // spread them. 0: the driver's choice.
  int udp_source_port = 0;
  int registration_threads = 1;  // that may register one large region together
  // After which time a lost packet is sent again: 4.096 us x 2^timeout, about a second by default.
  // With 7 retries a path fails after eight times as long. That is long because a path that is
  // alone must outlast a switch that restarts; a bond notices a silent path sooner.
  int timeout = 18;
  // How often a lost packet is sent again. For Soft-RoCE 7 means without end, which it needs
  // because packets may overtake each other.
  int retries = 7;
  int rnr_timer = 12;  // for how long a receiver without room lets senders wait; 12: 0.64 ms
  // Patch the C library so that registrations of any memory can be kept. Without it only those of
  // Weft's heap are, and pieces of other memory are copied before they are sent.
  bool memory_hooks = false;
  DeviceMemory device_memory;
};

// Whether libibverbs can be loaded; `unavailable` says what is missing.
[[nodiscard]] Status ib_library();

// ok, or why the device cannot register dma-bufs (GPUDirect RDMA).
[[nodiscard]] Status check_dma_bufs(const std::string& device);

// Opens rank `rank`'s interface on one port. `resolver` finds the address of a stranger that asks
// for attention. `unavailable` says why the port cannot be used.
Result<std::unique_ptr<Interface>> open_ib(Rank rank, const InterfaceOptions& options,
                                           const IbOptions& ib, AddressResolver resolver);

// The RDMA ports of this machine as discover_rdma_ports() has them, their addresses asked of the
// drivers.
[[nodiscard]] std::vector<RdmaPort> discover_ib_ports();

}  // namespace weft
