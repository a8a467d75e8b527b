// base: the words that every module uses. Status and Result, ranks, invariants, time, log.
// Values and free functions only; thread safe; nothing here owns a thread or a file.
#pragma once

#include "verbs/base/clock.h"
#include "verbs/base/fd.h"
#include "verbs/base/ids.h"
#include "verbs/base/invariant.h"
#include "verbs/base/log.h"
#include "verbs/base/status.h"
