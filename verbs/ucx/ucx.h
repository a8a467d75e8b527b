// ucx: connects ranks of any machines by UCX active messages, over those of UCX's transports that
// are asked for on a network device; TCP by default.
//
// Small notices are copied into the message. Larger payloads travel as pieces, from the caller's
// memory into a buffer of the receiver. No rank's memory is read in place. Each network device has
// an interface with its own UCX context, so every device can be a rail.
//
// UCX is loaded when the first interface is opened. A program starts on a host without UCX, and
// open_ucx() says what is missing.
#pragma once

#include <memory>
#include <string>

#include "verbs/transport/transport.h"

namespace weft {

// TCP ports; of 0, the kernel chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

struct UcxOptions {
  std::string device;                              // as UCX names it: "eth0", "lo", "mlx5_0:1"
  std::string transports = "tcp";                  // UCX's transports that may be used on it
  PortRange ports = {};                            // at which it listens, if it uses TCP
  std::size_t piece_bytes = std::size_t{1} << 19;  // largest payload of a piece
};

// Opens rank `rank`'s interface on one device. `resolver` finds the address of a stranger that asks
// for attention.
Result<std::unique_ptr<Interface>> open_ucx(Rank rank, const InterfaceOptions& options,
                                            const UcxOptions& ucx, AddressResolver resolver);

}  // namespace weft
