// named: what Python holds of operations by name. The session owns the Named, so that closing the
// context ends it.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <memory>

namespace weft::python {

struct OpenNamed {
  Named named;
  Rank rank = kNoRank;
  int size = 0;
  bool has_no_thread = false;
};

struct PyNamed {
  std::weak_ptr<OpenNamed> open;
};

}  // namespace weft::python
