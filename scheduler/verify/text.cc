// to_text: a plan as lines for people. For example
//
//   allreduce split, rank 1 of 3, in 0 2, out 0 2: 1048576 bytes on 3 ranks: …
//   input even 3, output even 3
//     0 send input[2] -> 2
//     2 reduce output[1] := scale*from 0 + scale*input[1] + scale*from 2
//     4 copy output[2] := from 2 after the readers of 0
#include "scheduler/verify/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft {
namespace {

constexpr std::string_view kBufferNames[kBuffers] = {"input", "output", "scratch"};

std::string_view name_of(Buffer buffer) {
  return kBufferNames[static_cast<std::size_t>(buffer)];
}

std::string_view name_of(Combining combining) {
  switch (combining) {
    case Combining::copy:
      return "copy";
    case Combining::weighted:
      return "weighted";
    case Combining::reduce:
      return "reduce";
  }
  return "unknown";
}

std::string text_of(Slice slice) {
  if (slice.first == slice.last) return "nothing";
  const std::string_view buffer = name_of(slice.buffer);
  if (slice.last == slice.first + 1) return fmt::format("{}[{}]", buffer, slice.first);
  return fmt::format("{}[{}..{}]", buffer, slice.first, slice.last - 1);
}

std::string factor_of(Weight weight) {
  switch (weight.kind) {
    case Weight::Kind::one:
      return "";
    case Weight::Kind::self:
      return "w_self*";
    case Weight::Kind::edge:
      return fmt::format("w_{}*", weight.index);
    case Weight::Kind::scale:
      return "scale*";
  }
  return "";
}

std::string text_of(const Operand& operand, const View& view) {
  const std::string factor = factor_of(operand.weight);
  if (operand.kind == Operand::Kind::local) return factor + text_of(operand.slice);
  return fmt::format("{}from {}", factor, view.in[operand.edge]);
}

std::string text_of_send(const Plan& plan, const View& view, const Step& step) {
  std::string line = fmt::format("send {} ->", text_of(step.slice));
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const std::uint32_t edge = plan.edges[step.first + i];
    line += fmt::format(" {}", view.out[edge]);
    if (!plan.rails.empty() && plan.rails[edge] != kAnyRail)
      line += fmt::format(" by rail {}", plan.rails[edge]);
  }
  return line;
}

std::string text_of_combine(const Plan& plan, const View& view, const Step& step) {
  std::string line = fmt::format("{} {} :=", name_of(step.combining), text_of(step.slice));
  for (std::uint32_t i = 0; i < step.count; ++i) {
    line += i == 0 ? " " : " + ";
    line += text_of(plan.operands[step.first + i], view);
  }
  if (step.is_whole) line += ", whole";
  for (std::uint32_t i = 0; i < step.hazard_count; ++i) {
    line += i == 0 ? " after the readers of " : ", ";
    line += fmt::format("{}", plan.hazards[step.hazard_first + i]);
  }
  return line;
}

std::string text_of(const Partition& partition) {
  switch (partition.kind) {
    case Partition::Kind::none:
      return "none";
    case Partition::Kind::even:
      return fmt::format("even {}", partition.blocks);
    case Partition::Kind::given:
      return fmt::format("given {}", partition.blocks);
  }
  return "unknown";
}

}  // namespace

std::string to_text(const Plan& plan, const View& view) {
  std::string text = fmt::format("{} {}, rank {} of {}, in {}, out {}: {}\n", plan.operation,
                                 plan.algorithm, view.rank, view.size, fmt::join(view.in, " "),
                                 fmt::join(view.out, " "), plan.reason);
  for (const Buffer buffer : {Buffer::input, Buffer::output, Buffer::scratch}) {
    text += fmt::format("{}{} {}", buffer == Buffer::input ? "" : ", ", name_of(buffer),
                        text_of(plan.partition_of(buffer)));
  }
  text += '\n';
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    text += fmt::format("{:3} {}\n", i,
                        step.kind == Step::Kind::send ? text_of_send(plan, view, step)
                                                      : text_of_combine(plan, view, step));
  }
  return text;
}

}  // namespace weft
