// strategies: the implementation of weft/strategies.h. The module's public header is that one; this
// name stands for it inside the tree.
#pragma once

#include <weft/strategies.h>

#include "engine/context/context.h"
