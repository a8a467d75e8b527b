// vocabulary: names and facts of the values that operations take (weft/types.h), which declares them.
#pragma once

#include <weft/types.h>

#include "verbs/base/base.h"
