// ucx: ranks of any machine through UCX active messages, over whatever UCX reaches a network device
// with; TCP where nothing better is asked for.
//
// Small notices are copied into the message; larger payloads go as pieces, from the caller's memory
// into a buffer of the receiver. Nobody's memory is read in place. One interface per network
// device, each with its own UCX context, so that every device is a rail. UCX is loaded when the
// first interface is opened: a host without it starts, and opening says what is missing.
#pragma once

#include <memory>
#include <string>

#include "verbs/transport/transport.h"

namespace weft {

struct UcxOptions {
  std::string device;                              // as UCX names it: "eth0", "lo", "mlx5_0:1"
  std::string transports = "tcp";                  // UCX's transports that may be used on it
  std::size_t piece_bytes = std::size_t{1} << 19;  // largest payload of a piece
};

// Opens rank `rank`'s interface on one device. `resolver` finds the address of a stranger that asks
// for attention.
Result<std::unique_ptr<Interface>> open_ucx(Rank rank, const InterfaceOptions& options,
                                            const UcxOptions& ucx, AddressResolver resolver);

}  // namespace weft
