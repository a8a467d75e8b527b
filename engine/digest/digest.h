// digest: checksums by which damage to tensors is noticed. The modules of the engine include this header.
#pragma once

#include "engine/digest/crc32c.h"
