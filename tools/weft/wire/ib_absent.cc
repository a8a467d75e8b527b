// `weft perf wire --transport ib`, where libibverbs' headers were not found.
#include "tools/weft/common/rdma_ports.h"
#include "tools/weft/wire/side.h"

namespace weft {

Result<std::unique_ptr<Interface>> open_wire_ib(Rank, const InterfaceOptions&, const WireDevice&) {
  return Status(Code::unavailable, "--transport ib: built without libibverbs");
}

std::vector<RdmaPort> rdma_ports() {
  return discover_rdma_ports();
}

}  // namespace weft
