// descriptor server: a local socket at which another process of this machine, the *client*, asks
// for descriptors of this one: the heap's file, or a bell. Internal to the module.
//
// /proc/PID/fd serves only processes in one pid namespace that may trace each other. A local socket
// reaches further: into containers that share the network namespace. Its socket has an abstract
// name, made from the heap's nonce. So it lies in no file system and ends with the process.
//
// Who is answered: the kernel says to which user the client belongs (SO_PEERCRED), and only our own
// user is answered. The client must also send the ticket, 128 random bits of the heap's identity.
// Ranks learn the identity through the job's store, which admits nobody without the job's key. The
// name of the socket is public (/proc/net/unix) and gives no access.
//
// From the first heap_identity() on, one thread per process waits for clients. A client that has
// asked is answered at once. Of those that have not, a bounded number is waited for, side by side
// and for a bounded time.
#pragma once

#include <cstdint>

#include "verbs/memory/memory.h"

namespace weft {

// Opens the descriptor server of the heap `identity`, whose nonce is set, and writes the ticket
// there. If no socket or no thread can be had, there is no descriptor server: the ticket stays
// zero, and peers can use only /proc.
void start_descriptor_server(HeapIdentity& identity);

// What a client gets.
struct ReceivedDescriptor {
  Fd descriptor;  // as asked for
  // Tells that the process behind the server has ended. It is that process's pidfd, which becomes
  // readable. If the process could not make one, it is the connection itself, which hangs up.
  Fd life;
};

// Asks the process of `identity` for its descriptor of this number. Waits two seconds at most for
// the answer. peer_died: the process is in our network namespace, and it has no descriptor server.
// unavailable: any other error, with the reason.
[[nodiscard]] Result<ReceivedDescriptor> request_descriptor(const HeapIdentity& identity,
                                                            int descriptor);

}  // namespace weft
