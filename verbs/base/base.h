// base: the words that every module uses. Status and Result, ranks, invariants, time, threads, forks, log; a
// hash, draws, a queue for the data path, and the loader of shared libraries. Free functions are thread safe,
// objects belong to whoever made them.
#pragma once

#include "verbs/base/backlog.h"
#include "verbs/base/clock.h"
#include "verbs/base/descriptors.h"
#include "verbs/base/draws.h"
#include "verbs/base/dynamic_library.h"
#include "verbs/base/fd.h"
#include "verbs/base/fork.h"
#include "verbs/base/hash.h"
#include "verbs/base/ids.h"
#include "verbs/base/invariant.h"
#include "verbs/base/log.h"
#include "verbs/base/status.h"
#include "verbs/base/thread.h"
