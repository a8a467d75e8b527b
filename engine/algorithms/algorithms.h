// algorithms: the implementation of weft/algorithms.h and weft/gradient_exchange.h. The module's public
// headers are those; this name stands for them inside the tree.
#pragma once

#include <weft/algorithms.h>
#include <weft/gradient_exchange.h>

#include "engine/algorithms/agreement.h"
#include "engine/algorithms/models.h"
#include "engine/context/context.h"
#include "engine/membership/membership.h"
