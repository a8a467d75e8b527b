// partial: the groups of partial all-reduce in a running job, on scheduler/partial.
//
//   host.h      what it needs of a context; engine/context implements it
//   messages.h  what workers and the generator say to each other
//   term.h      workers and their generator, until a rank is gone
//   service.h   a worker from the first term to the last
#pragma once

#include "engine/partial/host.h"
#include "engine/partial/service.h"
