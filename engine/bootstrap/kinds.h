// The kinds of Store that open_store() chooses between, beyond those that everybody may make.
#pragma once

#include "engine/bootstrap/bootstrap.h"

namespace weft {

// The seat that a PMIx server holds for this process; `config` is filled in as by open_store().
[[nodiscard]] Result<std::shared_ptr<Store>> open_pmix_store(Config& config);

}  // namespace weft
