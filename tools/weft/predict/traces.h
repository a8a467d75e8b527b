// weft predict --chakra: a step that Chakra traces have, on a cluster that need not exist. Internal to the command.
#pragma once

#include "tools/weft/predict/options.h"

namespace weft {

[[nodiscard]] Status predict_traces(const PredictOptions& options);

}  // namespace weft
