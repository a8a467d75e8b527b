// door: where another process of this machine asks for descriptors of this one: the heap's file, the
// writing end of a bell. Internal to the module.
//
// /proc/PID/fd answers only inside one pid namespace and to processes that may trace each other. A
// local socket reaches further: into containers that share the network namespace. The door is such a
// socket. Its abstract name is made from the heap's nonce, so it lies in no file system and ends with
// the process.
//
// Who gets in: the kernel says which user knocks (SO_PEERCRED), and only our own is answered. The
// guest also shows the ticket, 128 random bits that stand in the heap's identity. Ranks learn the
// identity through the job's store, which admits nobody without the job's key. The name of the socket
// is public (/proc/net/unix) and gives no access.
//
// One thread per process sleeps at the door from the first heap_identity() on. Each guest is answered
// at once and bounded in time, so one that says nothing holds nobody up.
#pragma once

#include <cstdint>

#include "verbs/memory/memory.h"

namespace weft {

// Opens the door of the heap `identity`, which has a nonce, and writes the ticket there. Without a
// door (no socket, no thread to be had) the ticket stays zero and peers have /proc alone.
void open_door(HeapIdentity& identity);

// Adds a descriptor to those that guests may have, or takes it away. The heap's file is always one.
void offer_at_door(int descriptor);
void withdraw_from_door(int descriptor);

// What a guest gets.
struct Handed {
  Fd descriptor;  // as asked for
  // Readable once the process behind the door has ended: its pidfd. Where it may not make one, the
  // connection itself, which hangs up then.
  Fd life;
};

// Asks the process of `identity` for its descriptor of this number. Takes two seconds at most.
// peer_died: nobody is behind the door of a process in our network namespace. unavailable: all else,
// with the reason.
[[nodiscard]] Result<Handed> knock(const HeapIdentity& identity, int descriptor);

}  // namespace weft
