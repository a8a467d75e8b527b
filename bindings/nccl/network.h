// network: the network interfaces of this machine as NCCL sees them, and the interfaces of a
// connection. Each device is a rail. A connection on it has all rails: it uses that of its device,
// and the others if that one fails.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/nccl/abi.h"
#include "engine/config/config.h"
#include "engine/networks/networks.h"
#include "verbs/transport/transport.h"

namespace weft::nccl {

struct Device {
  std::string name;      // "mlx5_0", "eth0"
  std::string kind;      // "ib", "ucx"
  std::string pci_path;  // below /sys/devices; empty: not on PCI
  std::string address;   // IP address of its network interface; empty: it has none
  std::uint64_t guid = 0;
  int port = 1;
  int mbit_per_s = 0;
  int pointers = abi::kHostPointers;  // which memory it reaches
};

class Network {
 public:
  // Reads WEFT_… and looks for devices. `unavailable` if there are none.
  [[nodiscard]] static Result<std::unique_ptr<Network>> open();

  [[nodiscard]] std::span<const Device> devices() const { return devices_; }
  // The IP addresses at which the device can be called, best first: its own, those of the others. If no
  // device has one, as on InfiniBand, those of the machine's other interfaces.
  [[nodiscard]] std::vector<std::string> addresses(int device) const;
  // Why no GPU memory is reached; ok: it is.
  [[nodiscard]] const Status& gpu_status() const { return gpu_status_; }
  [[nodiscard]] std::int64_t patience_ns() const { return config_.deadline_ms * 1'000'000; }
  // All rails as one, of one end of a connection. Both ends have the same job.
  [[nodiscard]] Result<std::unique_ptr<Interface>> open_interface(Rank rank, std::uint32_t job,
                                                                  AddressResolver resolver) const;

 private:
  explicit Network(Config config) : config_(std::move(config)) {}
  Status find_devices();
  // Which GPU memory all of these rails reach: the pointers of abi.h.
  [[nodiscard]] Result<int> gpu_pointers(std::span<const NetworkRail> rails) const;

  Config config_;
  std::vector<Device> devices_;
  std::vector<std::string> other_addresses_;  // of interfaces that are no devices, cards first
  Status gpu_status_;
};

}  // namespace weft::nccl
