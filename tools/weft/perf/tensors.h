// tensors: the sets of tensors that `weft perf named` submits.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct TensorSet {
  struct Tensor {
    std::string name;
    std::size_t count = 0;  // elements
  };
  std::string name;             // as it was asked for
  std::vector<Tensor> tensors;  // in the order in which a model has them

  [[nodiscard]] std::size_t count() const;  // elements of all
};

// The set of that name:
//   resnet50   the 161 parameters of ResNet-50 (He et al., Deep Residual Learning for Image
//              Recognition, 2015, table 1; a normalization behind each convolution)
//   bert       the 199 parameters of BERT-Base (Devlin et al., BERT, 2018, section 3; 30,522 words,
//              512 positions)
//   1000x1024  so many tensors of so many elements
// Anything else is a file with a line for each tensor: its name and its shape, for example
// `conv1.weight 64x3x7x7`. Empty lines, and lines that begin with #, are left out. An
// invalid_argument names the file and the line.
[[nodiscard]] Result<TensorSet> tensor_set(const std::string& asked);

}  // namespace weft
