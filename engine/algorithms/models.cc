// models: see the header.
#include "engine/algorithms/models.h"

#include <fmt/core.h>
#include <weft/macros.h>

#include <string>

#include "engine/gpu/gpu.h"
#include "engine/request/request.h"

namespace weft {

Status check_model(std::string_view title, const Output& model) {
  const auto invalid = [&](const std::string& why) {
    return Status(Code::invalid_argument, fmt::format("{}: {}", title, why));
  };
  if (!is_floating(model.type))
    return invalid(fmt::format("a model of {} cannot be averaged", name(model.type)));
  if (model.data == nullptr && model.count != 0) return invalid("the model has no memory");
  if (!is_count_of_memory(model.count, model.type))
    return invalid(fmt::format("{} elements fit in no memory", model.count));
  return {};
}

Status check_like(std::string_view title, std::string_view what, const Input& given,
                  std::string_view other, const Output& like) {
  const auto invalid = [&](const std::string& why) {
    return Status(Code::invalid_argument, fmt::format("{}: {} {}", title, what, why));
  };
  if (given.count != like.count || given.type != like.type) {
    return invalid(fmt::format("has {} elements of {}, and {} {} of {}", given.count,
                               name(given.type), other, like.count, name(like.type)));
  }
  if (given.data == nullptr && given.count != 0) return invalid("has no memory");
  return {};
}

}  // namespace weft
