// negotiate: how ranks that submit operations by name, each in an order of its own, agree which of
// them run, and in which order (Horovod's response cache and bit vector; Romero et al., Accelerating
// Collective Communication in Data Parallel Training across Deep Learning Frameworks, Algorithms 1
// and 2).
//
//   Negotiator agree({.rank = r, .size = n});
//   agree.submit(request, now);           // whenever this rank has something new
//   agree.receive(from, message, now);    // whenever a message arrives
//   agree.step(now);                      // then: begins what can begin
//   for (auto& m : agree.take_messages()) send(m.to, m.bytes);
//   for (auto& cycle : agree.take_decisions()) …   // the same on all ranks, in the same order
//
// The ranks agree in *cycles*. A cycle begins when a rank has something new; its messages draw the
// others in. In a cycle each rank contributes one bit for each name of the response cache: whether
// the name is pending here. An exchange by recursive doubling leaves the names that are pending
// everywhere. Those run. Only if some rank has submitted a name that is not in the cache do the
// ranks send their new requests to rank 0, which decides and tells all.
//
// Nothing here has a thread, a socket or a clock. A thousand negotiators run in one test.
#pragma once

#include "scheduler/negotiate/negotiator.h"
#include "scheduler/negotiate/request.h"
