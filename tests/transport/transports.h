// The transports that the conformance suite runs over. Each program that runs it says which, by its
// own transports(): transports.cc for those that need no device of their own, ib_transport.cc,
// selftest.cc.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft {

struct TransportFactory {
  std::string name;
  std::function<Result<std::unique_ptr<Interface>>(Rank rank, const InterfaceOptions& options,
                                                   AddressResolver resolver)>
      open;
};

// Where the interfaces of a job are: ranks alternate, so that what rank 0 tells rank 1 crosses the
// wire between the two. "mlx5_0" or "mlx5_0:2" for RDMA, "eth0" for UCX.
struct Devices {
  std::string even;
  std::string odd;
};

// Nothing, where Weft is built without the transport (with_…, without_….cc).
[[nodiscard]] std::optional<TransportFactory> ib_over(const Devices& devices);
[[nodiscard]] std::optional<TransportFactory> ucx_over(const Devices& devices);

// GoogleTest prints parameters in the names of tests.
inline std::ostream& operator<<(std::ostream& out, const TransportFactory& transport) {
  return out << transport.name;
}

[[nodiscard]] const std::vector<TransportFactory>& transports();

}  // namespace weft

// Runs every TEST_P of `suite`, a testing::TestWithParam<TransportFactory>, over all transports.
#define WEFT_FOR_ALL_TRANSPORTS(suite)                                            \
  INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::ValuesIn(::weft::transports()), \
                           [](const auto& parameter) { return parameter.param.name; })
