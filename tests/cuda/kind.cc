// kind: which of the libraries this is.
#include "tests/cuda/state.h"

namespace weft::fake {

const Kind kKind{FAKE_DEVICES, FAKE_VERSION, FAKE_HIDDEN, FAKE_FAILS};

}  // namespace weft::fake
