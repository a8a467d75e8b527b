// kind: which of the libraries this is.
#include "tests/cuda/state.h"

namespace weft::twin {

const Kind kKind{TWIN_DEVICES, TWIN_VERSION, TWIN_HIDDEN, TWIN_FAILS};

}  // namespace weft::twin
