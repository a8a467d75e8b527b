// models: what algorithms take as models and as tensors of their shape. Internal to the engine.
#pragma once

#include <weft/status.h>
#include <weft/types.h>

#include <string_view>

namespace weft {

// ok, or what is wrong with the model, after `title`. Not collective: agree() tells the other ranks.
[[nodiscard]] Status check_model(std::string_view title, const Output& model);
// ok if a tensor of a call has the shape of `like`. Messages name both: "the gradient", "the model".
[[nodiscard]] Status check_like(std::string_view title, std::string_view what, const Input& given,
                                std::string_view other, const Output& like);

}  // namespace weft
