// A build without RDMA verbs.
#include "engine/networks/networks.h"

namespace weft {

Result<Rails> ib_rails(const Config&, const InterfaceOptions&, std::span<WantedName>) {
  return Rails{
      {},
      "this build of Weft has no RDMA verbs (libibverbs' headers were missing when it was made)"};
}

}  // namespace weft
