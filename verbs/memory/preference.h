// preference: chooses the NUMA node of memory that is about to be allocated.
#pragma once

#include <cstddef>

#include "verbs/base/base.h"

namespace weft {

// While an object lives, the pages that the calling thread touches first are put on `node`, if that
// has room. Best effort: status() has the kernel's error, if there was one. Node -1 changes
// nothing.
class MemoryPreference {
 public:
  explicit MemoryPreference(int node);
  MemoryPreference(const MemoryPreference&) = delete;
  MemoryPreference& operator=(const MemoryPreference&) = delete;
  ~MemoryPreference();
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  static constexpr std::size_t kWords = 16;  // of a mask of nodes: 1024, as many as Linux has
  Status status_;
  bool is_set_ = false;
  int mode_ = 0;  // the policy before, which the destructor restores
  unsigned long mask_[kWords] = {};
};

}  // namespace weft
