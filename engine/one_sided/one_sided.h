// one_sided: work on memory of a peer that takes effect in order and survives the failure of a path
// (Chain), large work over all rails at once (Spread), and the words by which both sides know what is
// there. Windows and the network plugin for NCCL build on it.
#pragma once

#include "engine/one_sided/chain.h"
#include "engine/one_sided/spread.h"
#include "engine/one_sided/words.h"
