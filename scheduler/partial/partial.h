// partial: partial all-reduce (Prague; Luo et al., ASPLOS 2020). In each iteration a worker averages
// its model with a small group of workers instead of with all of them. Here is decided which groups
// there are, and in which order they run; the averages themselves are `group_average`.
//
//   law.h              the laws of groups by name: random, pairs, smart, static
//   static_schedule.h  static groups: a pure function of iteration and rank, without any service
//   generator.h        random and smart groups: one generator, to which workers send small messages
//   mixing.h           rho of a law, which says how fast its groups bring all workers to one value
//
// Nothing here has a thread, a socket or a clock.
#pragma once

#include "scheduler/partial/generator.h"
#include "scheduler/partial/law.h"
#include "scheduler/partial/mixing.h"
#include "scheduler/partial/static_schedule.h"
