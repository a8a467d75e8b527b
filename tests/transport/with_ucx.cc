// The ucx transport under test.
#include "engine/config/config.h"
#include "tests/transport/transports.h"
#include "verbs/ucx/ucx.h"

namespace weft {

std::optional<TransportFactory> ucx_over(const Devices& devices) {
  return TransportFactory{
      "ucx",
      [devices](Rank rank, const InterfaceOptions& options,
                AddressResolver resolver) -> Result<std::unique_ptr<Interface>> {
        WEFT_ASSIGN(const Config config, Config::from_environment());
        WEFT_ASSIGN(UcxOptions ucx, ucx_options(config));
        ucx.device = rank % 2 == 0 ? devices.even : devices.odd;
        return open_ucx(rank, options, ucx, std::move(resolver));
      }};
}

}  // namespace weft
