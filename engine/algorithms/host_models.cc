// One allreduce tells each rank what the others have.
#include "engine/algorithms/host_models.h"

#include <fmt/core.h>

#include "engine/gpu/gpu.h"

namespace weft {

Status check_host_models(Context& context, std::string_view what, const void* model) {
  const Status own = check_host_memory(what, model);
  std::int32_t refuses = own.ok() ? -1 : context.rank(), last = -1;
  WEFT_RETURN_IF_ERROR(context.allreduce(in(&refuses, 1), out(&last, 1), ReduceOp::max));
  if (!own.ok() || last < 0) return own;
  return Status(Code::unavailable,
                fmt::format("{}: rank {} has GPU memory; host memory is needed", what, last), last);
}

}  // namespace weft
