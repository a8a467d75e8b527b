// verify_local: one walk over a plan's steps for its indices, one for its memory.
#include "scheduler/verify/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace weft::verifier {
namespace {

bool lies_in(std::uint32_t first, std::uint32_t count, std::size_t size) {
  return first <= size && count <= size - first;
}

bool is_peer_list(const std::vector<Rank>& peers, const View& view) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (peers[i] < 0 || peers[i] >= view.size || peers[i] == view.rank) return false;
    if (i > 0 && peers[i] <= peers[i - 1]) return false;
  }
  return true;
}

bool lies_in_partition(const Plan& plan, const Slice& slice) {
  return slice.first <= slice.last && slice.last <= plan.partition_of(slice.buffer).blocks;
}

// What is wrong with the parts that all steps share; empty when nothing is.
std::string fault_of_plan(const Planned& program) {
  const auto& [view, plan] = program;
  if (!is_peer_list(view.in, view)) return "in-peers must ascend, without the rank itself";
  if (!is_peer_list(view.out, view)) return "out-peers must ascend, without the rank itself";
  if (plan.in_degree != view.in.size()) return "the plan's in-degree is not the view's";
  if (plan.out_degree != view.out.size()) return "the plan's out-degree is not the view's";
  for (const Buffer buffer : {Buffer::input, Buffer::output, Buffer::scratch}) {
    const Partition& partition = plan.partition_of(buffer);
    if ((partition.kind == Partition::Kind::none) != (partition.blocks == 0) &&
        partition.kind != Partition::Kind::given) {
      return "an even partition has blocks, an absent one has none";
    }
  }
  return {};
}

std::string fault_of_send(const Plan& plan, const Step& step) {
  if (!lies_in(step.first, step.count, plan.edges.size())) return "its edges lie outside the list";
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const std::uint32_t edge = plan.edges[step.first + i];
    if (edge >= plan.out_degree) return fmt::format("there is no out-edge {}", edge);
  }
  return {};
}

std::string fault_of_hazards(const Plan& plan, std::size_t index, const Step& step) {
  if (!lies_in(step.hazard_first, step.hazard_count, plan.hazards.size())) {
    return "its hazards lie outside the list";
  }
  for (std::uint32_t i = 0; i < step.hazard_count; ++i) {
    const std::uint32_t hazard = plan.hazards[step.hazard_first + i];
    if (hazard >= index || plan.steps[hazard].kind != Step::Kind::send) {
      return fmt::format("its hazard {} is no earlier send", hazard);
    }
  }
  return {};
}

// `last_taken[edge]` is one more than the last step that took a message of the edge.
std::string fault_of_operands(const Plan& plan, std::size_t index, const Step& step,
                              std::vector<std::size_t>& last_taken) {
  if (!lies_in(step.first, step.count, plan.operands.size()))
    return "its operands lie outside the list";
  const bool is_empty = step.slice.first == step.slice.last;
  if (!is_empty && step.count == 0) return "it has no operand";
  if (!is_empty && step.combining == Combining::copy && step.count != 1)
    return "a copy has one operand";
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const Operand& operand = plan.operands[step.first + i];
    if (operand.weight.kind == Weight::Kind::edge && operand.weight.index >= plan.in_degree) {
      return fmt::format("operand {} has the weight of in-edge {}, which does not exist", i,
                         operand.weight.index);
    }
    if (operand.kind == Operand::Kind::local) {
      if (!lies_in_partition(plan, operand.slice)) return fmt::format("operand {} lies outside", i);
      continue;
    }
    if (operand.edge >= plan.in_degree) return fmt::format("there is no in-edge {}", operand.edge);
    if (last_taken[operand.edge] == index + 1) {
      return fmt::format("it takes two messages of in-edge {} at once, and an edge holds one",
                         operand.edge);
    }
    last_taken[operand.edge] = index + 1;
  }
  return {};
}

// Walks the steps in order and keeps, for each element, whether it has a value and which sends
// expose it to peers. A send stays exposed until a combine names it as a hazard.
class MemoryWalk {
 public:
  MemoryWalk(const Planned& program, const Layout& layout, Shape shape)
      : plan_(program.plan),
        layout_(layout),
        input_(layout.whole(Buffer::input)),
        in_place_(shape.in_place),
        has_value_(layout.elements(), false),
        sends_of_(layout.elements()),
        is_read_(plan_.steps.size(), false) {
    std::fill_n(has_value_.begin() + static_cast<std::ptrdiff_t>(input_.first), input_.count(),
                true);
  }

  std::string send(std::uint32_t index) {
    const Step& step = plan_.steps[index];
    const Extent source = layout_.extent(step.slice);
    if (!have_values(source)) return "it sends what was never written";
    for (std::size_t at = source.first; step.count > 0 && at < source.last; ++at) {
      sends_of_[at].push_back(index);
    }
    return {};
  }

  std::string combine(const Step& step) {
    for (std::uint32_t i = 0; i < step.hazard_count; ++i) {
      is_read_[plan_.hazards[step.hazard_first + i]] = true;
    }
    const Extent destination = layout_.extent(step.slice);
    for (std::uint32_t i = 0; i < step.count; ++i) {
      const Operand& operand = plan_.operands[step.first + i];
      if (operand.kind == Operand::Kind::message) continue;
      const Extent source = layout_.extent(operand.slice);
      if (source.count() != destination.count()) {
        return fmt::format("operand {} has {} elements, the destination {}", i, source.count(),
                           destination.count());
      }
      if (!have_values(source)) return fmt::format("operand {} was never written", i);
      if (overlap(source, destination) && source != destination) {
        return fmt::format("operand {} overlaps the destination in part", i);
      }
    }
    return write(destination);
  }

 private:
  [[nodiscard]] bool have_values(const Extent& extent) const {
    for (std::size_t at = extent.first; at < extent.last; ++at) {
      if (!has_value_[at]) return false;
    }
    return true;
  }

  std::string write(const Extent& extent) {
    if (!in_place_ && overlap(extent, input_)) return "it writes the input";
    for (std::size_t at = extent.first; at < extent.last; ++at) {
      for (const std::uint32_t send : sends_of_[at]) {
        if (!is_read_[send]) {
          return fmt::format("it writes what step {} sent, without waiting for that send's readers",
                             send);
        }
      }
      sends_of_[at].clear();
      has_value_[at] = true;
    }
    return {};
  }

  const Plan& plan_;
  const Layout& layout_;
  Extent input_;
  bool in_place_;
  std::vector<bool> has_value_;
  std::vector<std::vector<std::uint32_t>> sends_of_;  // by element
  std::vector<bool> is_read_;                         // by step
};

}  // namespace

Status fault(Code code, Rank rank, std::size_t step, const std::string& what) {
  return {code, fmt::format("rank {} step {}: {}", rank, step, what), rank};
}

Status check_indices(const Planned& program) {
  const auto& [view, plan] = program;
  if (const std::string what = fault_of_plan(program); !what.empty()) {
    return {Code::invalid_argument, fmt::format("rank {}: {}", view.rank, what), view.rank};
  }
  std::vector<std::size_t> last_taken(plan.in_degree, 0);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    std::string what = lies_in_partition(plan, step.slice) ? "" : "its slice lies outside";
    if (what.empty()) what = fault_of_hazards(plan, i, step);
    if (what.empty()) {
      what = step.kind == Step::Kind::send ? fault_of_send(plan, step)
                                           : fault_of_operands(plan, i, step, last_taken);
    }
    if (!what.empty()) return fault(Code::invalid_argument, view.rank, i, what);
  }
  return {};
}

Status check_memory(const Planned& program, const Layout& layout, Shape shape) {
  MemoryWalk walk(program, layout, shape);
  const std::vector<Step>& steps = program.plan.steps;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const std::string what =
        steps[i].kind == Step::Kind::send ? walk.send(i) : walk.combine(steps[i]);
    if (!what.empty()) return fault(Code::invalid_argument, program.view.rank, i, what);
  }
  return {};
}

}  // namespace weft::verifier
