// The ucx transport under test, over the loopback device.
#include "tests/transport/transports.h"
#include "verbs/ucx/ucx.h"

namespace weft {

void add_ucx(std::vector<TransportFactory>& all) {
  all.push_back({"ucx", [](Rank rank, const InterfaceOptions& options, AddressResolver resolver) {
                   return open_ucx(rank, options, {.device = "lo"}, std::move(resolver));
                 }});
}

}  // namespace weft
