// `weft perf wire --transport ib`, where the build has it.
#include "verbs/ib/ib.h"

#include "engine/config/config.h"
#include "tools/weft/common/rdma_ports.h"
#include "tools/weft/wire/side.h"

namespace weft {

Result<std::unique_ptr<Interface>> open_wire_ib(Rank self, const InterfaceOptions& options,
                                                const WireDevice& device) {
  if (device.name.empty()) return Status(Code::unavailable, why_no_rdma());
  WEFT_ASSIGN(const Config config, Config::from_environment(UnknownNames::refuse));
  IbOptions ib = ib_options(config);
  ib.device = device.name;
  ib.port = device.port;
  return open_ib(self, options, ib, [](Rank peer) -> Result<std::string> {
    return Status(Code::unavailable, "there is no third rank", peer);
  });
}

std::vector<RdmaPort> rdma_ports() {
  return discover_ib_ports();
}

}  // namespace weft
