// kinds: the kinds of Store that only open_store() makes.
#pragma once

#include "engine/bootstrap/bootstrap.h"

namespace weft {

// The store of this process at its PMIx server. Fills in `config` as open_store() describes.
[[nodiscard]] Result<std::shared_ptr<Store>> open_pmix_store(Config& config);

}  // namespace weft
