// match: operations of neighbors that are matched by name on each edge, without a coordinator and
// without a common order.
//
//   rank i expects "grad.7" of rank j          rank j has submitted "grad.7" for rank i
//          └── want grad.7, 4096 B ──────────────►┐
//                                                 ▼ both are there: the edge is ready
//   recv into memory of its own  ◄── batch: grad.7, grad.9 ── send
//
// A receiver says at once what it wants. A sender sends what is wanted, and as one batch what is
// ready at the same time. The order of batches on an edge is the sender's alone, and a receiver
// takes whatever is announced, into memory of its own. So no rank ever waits for another one that
// waits for it: a batch needs only its sender and its receiver.
//
// Rounds. The k-th submission of a name at one rank is matched with the k-th at another one. A name
// may be submitted again when its operation has ended here; its neighbors may be in an earlier or a
// later round. There is at most one want for each name and edge under way, because a receiver wants
// the next round only after it has got this one.
//
// Nothing here has a thread, a socket or a clock.
#pragma once

#include "scheduler/match/matcher.h"
