// shm: ranks of one machine, processes or threads, through shared memory.
//
// Small messages are copied into a slot of the pair's ring; large ones that live in the shared heap
// (weft::allocate) are named by offset and read in place; private memory is read by
// process_vm_readv where the kernel allows it. Containers of one host share memory too where they
// share its network namespace (verbs/memory/door.h). One interface per context. Nothing it makes has a
// name in the file system.
#pragma once

#include <memory>

#include "verbs/memory/memory.h"
#include "verbs/transport/transport.h"

namespace weft {

// Opens rank `rank`'s interface. `resolver` finds the address of a stranger that asks for
// attention.
Result<std::unique_ptr<Interface>> open_shm(Rank rank, const InterfaceOptions& options,
                                            AddressResolver resolver);

// The heap behind an address made by an shm interface, mapped here: what a death watch needs.
Result<std::shared_ptr<const PeerHeap>> shm_heap(std::string_view address);

}  // namespace weft
