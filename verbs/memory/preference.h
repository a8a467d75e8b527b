// preference: on which NUMA node memory is put that is about to be allocated.
#pragma once

#include <cstddef>

#include "verbs/base/base.h"

namespace weft {

// While it lives, what the calling thread touches first is put on a node, if that has room. Best
// effort: status() says what the kernel thought of it. Nothing for node -1.
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
  int mode_ = 0;  // what there was before
  unsigned long mask_[kWords] = {};
};

}  // namespace weft
