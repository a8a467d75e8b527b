// The transport over a scripted device, for the conformance suite: every rank on one device.
#include "tests/ib/scripted_device.h"
#include "tests/transport/transports.h"
#include "verbs/ib/interface.h"

namespace weft {
namespace {

Result<std::unique_ptr<Interface>> open_scripted(Rank rank, const InterfaceOptions& options,
                                                 AddressResolver resolver) {
  static ib::Fabric* const fabric = [] {
    auto* made = new ib::Fabric();  // outlives every interface
    made->add_device("scripted0", 1);
    return made;
  }();
  fabric->use();
  IbOptions ib;
  ib.device = "scripted0";
  return ib::IbInterface::open(ib::Fabric::library(), rank, options, ib, std::move(resolver));
}

}  // namespace

const std::vector<TransportFactory>& transports() {
  static const std::vector<TransportFactory> all = {{"scripted", open_scripted}};
  return all;
}

}  // namespace weft
