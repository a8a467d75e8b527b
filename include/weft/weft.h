// Everything of Weft's public API: the C++ API in C++, the C API (weft/c.h) in C.
#pragma once

#ifdef __cplusplus
#include <weft/algorithms.h>
#include <weft/config.h>
#include <weft/context.h>
#include <weft/feedback.h>
#include <weft/gradient_exchange.h>
#include <weft/graph.h>
#include <weft/handle.h>
#include <weft/log.h>
#include <weft/memory.h>
#include <weft/metrics.h>
#include <weft/named.h>
#include <weft/status.h>
#include <weft/store.h>
#include <weft/strategies.h>
#include <weft/types.h>
#include <weft/version.h>
#include <weft/window.h>
#else
#include <weft/c.h>
#endif
