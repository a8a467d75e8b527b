// Exposures: the memory of ours that peers may read and write: chunks of the shared heap, and regions.
// A chunk is registered when a peer first asks for it, and stays registered, so its pages stay,
// too. A region is registered as a whole until the last interface that exposed it has withdrawn it.
//
// All interfaces on a device answer with the same registration of a chunk, and of a region with the
// same bounds: queue pairs of one protection domain can use it alike.
//
// Threads: any. Owner: the SharedDevice; registrations end with this object. Internal to the module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "verbs/ib/layout.h"
#include "verbs/ib/registrar.h"
#include "verbs/memory/memory.h"

namespace weft::ib {

// Memory that the device may read and write for peers. It is deregistered when this goes.
struct ExposedMemory {
  HeapHold pages;          // where the memory is of the heap
  Owned<ibv_mr> region{};  // destroyed before `pages`; null for no bytes
};

class Exposures {
 public:
  // The answer to a peer that asks for a chunk. Its key is 0 if the chunk is not in the heap, or if
  // it could not be registered; in the second case `why` is not ok.
  [[nodiscard]] Control expose(std::uint64_t chunk, Registrar& registrar, Status& why);

  // Registers memory as a region. It stays registered as long as somebody has a share in it.
  [[nodiscard]] Result<std::shared_ptr<const ExposedMemory>> expose(std::span<std::byte> memory,
                                                                    Registrar& registrar);

 private:
  using Bounds = std::pair<const std::byte*, std::size_t>;

  std::mutex mutex_;
  std::map<std::uint64_t, ExposedMemory> chunks_;
  std::map<Bounds, std::weak_ptr<const ExposedMemory>> regions_;
};

}  // namespace weft::ib
