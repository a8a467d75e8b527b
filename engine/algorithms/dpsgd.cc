// dpsgd: a step is the pair_average that the schedule says.
#include <fmt/core.h>

#include "engine/algorithms/algorithms.h"
#include "engine/gpu/gpu.h"

namespace weft {

Result<DPsgd> DPsgd::create(Context& context, const Schedule& schedule) {
  if (schedule.size() == context.size()) return DPsgd(context, schedule);
  return Status(Code::invalid_argument,
                fmt::format("D-PSGD: the schedule {} has {} ranks, and the context {}",
                            schedule.name(), schedule.size(), context.size()));
}

Status DPsgd::step(const Input& x, const Output& y) {
  const LocalView view = schedule_.local_view(step_, context_->rank());
  if (view.in.empty() && view.out.empty()) {
    if (x.count != y.count || x.type != y.type) {
      return Status(Code::invalid_argument,
                    fmt::format("D-PSGD: x has {} elements of {}, and y {} of {}", x.count,
                                name(x.type), y.count, name(y.type)));
    }
    if ((x.data == nullptr || y.data == nullptr) && x.count != 0)
      return Status(Code::invalid_argument, "D-PSGD: x or y has no memory");
    if (x.data != y.data) {
      WEFT_RETURN_IF_ERROR(
          copy_memory(y.data, x.data, x.count * size_of(x.type), context_->config().deadline_ms));
    }
    ++step_;
    return {};
  }
  const bool is_pair =
      view.in.size() == 1 && view.out.size() == 1 && view.in[0].rank == view.out[0].rank;
  if (!is_pair) {
    return Status(Code::invalid_argument,
                  fmt::format("D-PSGD: step {} of the schedule {} does not pair rank {} with one "
                              "other rank",
                              step_, schedule_.name(), view.rank));
  }
  WEFT_RETURN_IF_ERROR(
      context_->pair_average(x, y, view.in[0].rank, view.self_weight, view.in[0].weight));
  ++step_;
  return {};
}

}  // namespace weft
