// store: the class weft._core.Store. It holds the C++ store by a pointer of its own. nanobind's
// conversion of a shared_ptr would tie the store to the Python object, and the last thread of Weft
// that lets go of the store would then need the GIL.
#pragma once

#include <weft/weft.h>

#include <memory>

namespace weft::python {

struct PyStore {
  std::shared_ptr<Store> store;
};

}  // namespace weft::python
