// `weft perf wire --transport ucx`, where the build has it.
#include "verbs/ucx/ucx.h"

#include "engine/config/config.h"
#include "tools/weft/wire/side.h"

namespace weft {

Result<std::unique_ptr<Interface>> open_wire_ucx(Rank self, const InterfaceOptions& options,
                                                 const WireDevice& device) {
  WEFT_ASSIGN(const Config config, Config::from_environment(UnknownNames::refuse));
  WEFT_ASSIGN(UcxOptions ucx, ucx_options(config));
  ucx.device = device.name;
  return open_ucx(self, options, ucx, [](Rank peer) -> Result<std::string> {
    return Status(Code::unavailable, "there is no third rank", peer);
  });
}

}  // namespace weft
