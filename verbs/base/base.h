// base: the words that every module uses. Status and Result, ranks, invariants, time, threads, log.
// Values and free functions; thread safe. Only Fd and Thread own something of the system.
#pragma once

#include "verbs/base/clock.h"
#include "verbs/base/descriptors.h"
#include "verbs/base/fd.h"
#include "verbs/base/ids.h"
#include "verbs/base/invariant.h"
#include "verbs/base/log.h"
#include "verbs/base/status.h"
#include "verbs/base/thread.h"
