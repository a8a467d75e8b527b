// Exposures: the chunks of our shared heap that peers may read and write. A chunk is registered
// when a peer first asks for it, and stays registered, so its pages stay, too.
//
// All interfaces on a device answer with the same registration of a chunk: queue pairs of one
// protection domain can use it alike.
//
// Threads: any. Owner: the SharedDevice; registrations end with this object. Internal to the module.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "verbs/ib/layout.h"
#include "verbs/ib/registrar.h"
#include "verbs/memory/memory.h"

namespace weft::ib {

class Exposures {
 public:
  // The answer to a peer that asks for a chunk. Its key is 0 if the chunk is not in the heap, or if
  // it could not be registered; in the second case `why` is not ok.
  [[nodiscard]] Control expose(std::uint64_t chunk, Registrar& registrar, Status& why);

 private:
  struct Exposed {
    HeapHold pages;
    Owned<ibv_mr> region;  // destroyed before `pages`
  };

  std::mutex mutex_;
  std::map<std::uint64_t, Exposed> chunks_;
};

}  // namespace weft::ib
