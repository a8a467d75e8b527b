// `weft perf wire --transport ucx`, where UCX was not found.
#include "tools/weft/wire/side.h"

namespace weft {

Result<std::unique_ptr<Interface>> open_wire_ucx(Rank, const InterfaceOptions&, const WireDevice&) {
  return Status(Code::unavailable, "--transport ucx: built without UCX");
}

}  // namespace weft
