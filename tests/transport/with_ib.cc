// The ib transport under test.
#include <algorithm>
#include <charconv>

#include "tests/transport/transports.h"
#include "verbs/ib/ib.h"

namespace weft {
namespace {

IbOptions port_of(const std::string& text) {
  IbOptions ib;
  ib.retries = 6;  // Soft-RoCE takes 7 for "for ever", and then never tells that a peer is gone
  const std::size_t colon = std::min(text.find(':'), text.size());
  ib.device = text.substr(0, colon);
  if (colon < text.size())
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), ib.port);
  return ib;
}

}  // namespace

std::optional<TransportFactory> ib_over(const Devices& devices) {
  return TransportFactory{
      "ib", [even = port_of(devices.even), odd = port_of(devices.odd)](
                Rank rank, const InterfaceOptions& options, AddressResolver resolver) {
        return open_ib(rank, options, rank % 2 == 0 ? even : odd, std::move(resolver));
      }};
}

}  // namespace weft
