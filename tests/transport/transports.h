// The transports that the conformance suite runs over. A new transport is one line in
// transports.cc.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft {

struct TransportFactory {
  std::string name;
  Result<std::unique_ptr<Interface>> (*open)(Rank rank, const InterfaceOptions& options,
                                             AddressResolver resolver);
};

// Adds ucx over the loopback device where Weft is built with it (with_ucx.cc, without_ucx.cc).
void add_ucx(std::vector<TransportFactory>& all);

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
