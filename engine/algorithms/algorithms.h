// algorithms: the implementation of weft/algorithms.h. The module's public header is that one; this
// name stands for it inside the tree.
#pragma once

#include <weft/algorithms.h>

#include "engine/context/context.h"
