// The ib transport under test.
#include <algorithm>
#include <charconv>

#include "engine/config/config.h"
#include "tests/transport/transports.h"
#include "verbs/ib/ib.h"

namespace weft {
namespace {

// As the user has set it (WEFT_IB_…), for `weft selftest` is run on fabrics that need that.
Result<IbOptions> port_of(const std::string& text) {
  WEFT_ASSIGN(const Config config, Config::from_environment());
  IbOptions ib = ib_options(config);
  // Soft-RoCE takes 7, which is the default, for "for ever", and then never tells that a peer is gone.
  if (ib.retries == IbOptions{}.retries) --ib.retries;
  const std::size_t colon = std::min(text.find(':'), text.size());
  ib.device = text.substr(0, colon);
  if (colon < text.size())
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), ib.port);
  return ib;
}

}  // namespace

std::optional<TransportFactory> ib_over(const Devices& devices) {
  return TransportFactory{"ib",
                          [even = port_of(devices.even), odd = port_of(devices.odd)](
                              Rank rank, const InterfaceOptions& options,
                              AddressResolver resolver) -> Result<std::unique_ptr<Interface>> {
                            WEFT_ASSIGN(const IbOptions ib, rank % 2 == 0 ? even : odd);
                            return open_ib(rank, options, ib, std::move(resolver));
                          }};
}

}  // namespace weft
