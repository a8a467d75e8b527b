// absent: for a build without PMIx. Every use of PMIx is an error that says so.
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/kinds.h"

namespace weft {
namespace {

Status absent() {
  return Status(Code::unavailable, "Weft was built without PMIx (libpmix-dev was not there)");
}

}  // namespace

Result<std::shared_ptr<Store>> open_pmix_store(Config&) {
  return absent();
}

Result<std::unique_ptr<PmixServer>> PmixServer::start(int) {
  return absent();
}

}  // namespace weft
