// segments: memory that every rank of a measurement shows to all others.
//
// Memory from weft::allocate is mapped and read in place. Other memory is named by process and
// address, for process_vm_readv. Segments are made collectively, through the job's store. The
// mappings live as long as the object. The memory belongs to the rank that showed it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "tools/limits/sight.h"
#include "verbs/memory/memory.h"

namespace weft {

class Segments {
 public:
  // Collective. Shows [mine, mine+bytes) under `name`, which must be new, and gets the memory of
  // all ranks.
  static Result<Segments> exchange(Store& store, const std::string& name, const void* mine,
                                   std::size_t bytes, Deadline deadline);

  // By rank. For this rank it is the memory itself.
  [[nodiscard]] const std::vector<Sight>& sights() const { return sights_; }
  // Whether this rank can read all of them: what is not mapped, the kernel may refuse. Each has a
  // byte at least.
  [[nodiscard]] Status check_readable() const;

 private:
  std::vector<Sight> sights_;
  std::vector<std::shared_ptr<const PeerHeap>> heaps_;
};

}  // namespace weft
