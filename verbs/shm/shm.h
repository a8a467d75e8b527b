// shm: connects ranks of one machine, processes or threads, through shared memory.
//
// Small messages are copied into a slot of the pair's ring. Large messages in the shared heap
// (weft::allocate) are named by their offset and read in place. Private memory is read by
// process_vm_readv if the kernel allows it. Containers of one machine share memory, too, if they
// share its network namespace (verbs/memory/descriptor_server.h).
//
// A context has one interface. Nothing that the interface makes has a name in the file system.
#pragma once

#include <memory>

#include "verbs/memory/memory.h"
#include "verbs/transport/transport.h"

namespace weft {

// Opens rank `rank`'s interface. `resolver` finds the address of a stranger that asks for
// attention.
Result<std::unique_ptr<Interface>> open_shm(Rank rank, const InterfaceOptions& options,
                                            AddressResolver resolver);

// Maps the heap that an shm interface's address names. A death watch needs it (PeerHeap::life()).
Result<std::shared_ptr<const PeerHeap>> shm_heap(std::string_view address);

}  // namespace weft
