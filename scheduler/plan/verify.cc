// verify: the passes in order, and the comparison of what came out with what was asked for.
#include "scheduler/plan/verify.h"

#include <fmt/format.h>

#include <vector>

#include "scheduler/plan/verify_layout.h"
#include "scheduler/plan/verify_local.h"
#include "scheduler/plan/verify_run.h"
#include "scheduler/plan/verify_values.h"
#include "scheduler/plan/verify_wires.h"

namespace weft {
namespace verifier {
namespace {

// A source of an output and its weight there.
struct Source {
  Rank rank;
  Field factor;
};

Status check_ranks(std::span<const Planned> programs, Rank root) {
  if (root < 0 || static_cast<std::size_t>(root) >= programs.size()) {
    return {Code::invalid_argument, fmt::format("there is no rank {} to be the root", root), root};
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const View& view = programs[i].view;
    const auto rank = static_cast<Rank>(i);
    if (view.rank != rank || static_cast<std::size_t>(view.size) != programs.size()) {
      return {Code::invalid_argument,
              fmt::format("program {} of {} is that of rank {} of {}", i, programs.size(),
                          view.rank, view.size),
              rank};
    }
  }
  return {};
}

std::vector<Source> sources_of_neighbors(const Symbols& symbols, const View& view) {
  std::vector<Source> sources{{view.rank, symbols.weight(view, {Weight::Kind::self, 0})}};
  for (std::uint32_t edge = 0; edge < view.in.size(); ++edge) {
    sources.push_back({view.in[edge], symbols.weight(view, {Weight::Kind::edge, edge})});
  }
  return sources;
}

std::vector<Source> sources_of_all(const Symbols& symbols, const View& view) {
  std::vector<Source> sources;
  for (Rank rank = 0; rank < view.size; ++rank) {
    sources.push_back({rank, symbols.weight(view, {Weight::Kind::scale, 0})});
  }
  return sources;
}

// The terms of the sum that a rank's output is; none where it is no sum.
std::vector<Source> sources_of(Operation operation, const Symbols& symbols, const View& view) {
  switch (operation) {
    case Operation::neighbor_allreduce:
      return sources_of_neighbors(symbols, view);
    case Operation::allreduce:
      return sources_of_all(symbols, view);
    case Operation::neighbor_allgather:
    case Operation::broadcast:
    case Operation::barrier:
      break;
  }
  return {};
}

// A reduction is asked for as an average and, with the same plan, as a product; a neighbor sum is
// one sum.
std::vector<Value> reduced(const Symbols& symbols, const std::vector<Source>& sources,
                           std::size_t elements, bool has_operator) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < elements; ++i) {
    Value value;
    for (const Source& source : sources) {
      const Field symbol = symbols.input(source.rank, i);
      value.average = add(value.average, multiply(source.factor, symbol));
      value.product = multiply(value.product, symbol);
    }
    if (!has_operator) value.product = value.average;
    values.push_back(value);
  }
  return values;
}

std::vector<Value> inputs_of(const Symbols& symbols, std::span<const Rank> ranks,
                             std::span<const std::size_t> inputs) {
  std::vector<Value> values;
  for (const Rank rank : ranks) {
    for (std::size_t i = 0; i < inputs[static_cast<std::size_t>(rank)]; ++i) {
      values.push_back(symbols.input_value(rank, i));
    }
  }
  return values;
}

// What rank `view.rank` should have in its output.
std::vector<Value> expected_output(const Expectation& expectation, const Symbols& symbols,
                                   const View& view, const std::vector<Source>& sources,
                                   std::span<const std::size_t> inputs) {
  switch (expectation.operation) {
    case Operation::neighbor_allreduce:
      return reduced(symbols, sources, inputs[static_cast<std::size_t>(view.rank)], false);
    case Operation::allreduce:
      return reduced(symbols, sources, inputs[static_cast<std::size_t>(view.rank)], true);
    case Operation::neighbor_allgather:
      return inputs_of(symbols, view.in, inputs);
    case Operation::broadcast:
      return inputs_of(symbols, std::span(&expectation.root, 1), inputs);
    case Operation::barrier:
      break;
  }
  return {};
}

// Why `actual` is not `expected`, in terms of sources where one source explains it.
std::string blame(const Symbols& symbols, const std::vector<Source>& sources, std::size_t element,
                  const Value& actual, const Value& expected) {
  const Field lacks = subtract(expected.average, actual.average);
  const Field exceeds = subtract(actual.average, expected.average);
  if (lacks == 0) return "is right as a sum, but not for other operators: it must be reduced";
  for (const Source& source : sources) {
    const Field share = multiply(source.factor, symbols.input(source.rank, element));
    if (lacks == share) return fmt::format("lacks the share of rank {}", source.rank);
    if (exceeds == share) return fmt::format("has the share of rank {} twice", source.rank);
  }
  return "is not what was asked for";
}

std::uint32_t block_holding(const Layout& layout, const Plan& plan, std::size_t address) {
  std::uint32_t block = 0;
  while (block + 1 < plan.partition_of(Buffer::output).blocks &&
         layout.extent({Buffer::output, block, block + 1}).last <= address) {
    ++block;
  }
  return block;
}

Status wrong_output(const Planned& program, const Layout& layout, std::size_t address,
                    const std::string& what) {
  const Rank rank = program.view.rank;
  return {Code::invalid_argument,
          fmt::format("rank {} output block {}: it {}", rank,
                      block_holding(layout, program.plan, address), what),
          rank};
}

Status check_outputs(std::span<const Planned> programs, std::span<const Layout> layouts,
                     std::span<const std::size_t> inputs, const Run& run,
                     const Expectation& expectation) {
  const Symbols symbols(expectation.seed);
  const bool is_same_everywhere = expectation.operation == Operation::allreduce ||
                                  expectation.operation == Operation::broadcast;
  const std::size_t first_output = layouts[0].whole(Buffer::output).first;
  std::vector<Source> sources;
  std::vector<Value> expected;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    if (rank == 0 || !is_same_everywhere) {
      sources = sources_of(expectation.operation, symbols, programs[rank].view);
      expected = expected_output(expectation, symbols, programs[rank].view, sources, inputs);
    }
    const Extent output = layouts[rank].whole(Buffer::output);
    if (output.count() != expected.size()) {
      return {Code::invalid_argument,
              fmt::format("rank {}: the output has {} elements instead of {}", rank, output.count(),
                          expected.size()),
              static_cast<Rank>(rank)};
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Value& actual = run.at(rank, output.first + i);
      if (actual.average != expected[i].average || actual.product != expected[i].product) {
        return wrong_output(programs[rank], layouts[rank], output.first + i,
                            blame(symbols, sources, i, actual, expected[i]));
      }
      if (is_same_everywhere && actual.bits != run.at(0, first_output + i).bits) {
        return wrong_output(programs[rank], layouts[rank], output.first + i,
                            "is combined in another order than at rank 0, so its bits may differ");
      }
    }
  }
  return {};
}

Status check_barrier(std::size_t ranks, const Run& run) {
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t other = 0; other < ranks; ++other) {
      if (run.heard_of(rank, other)) continue;
      return {Code::invalid_argument,
              fmt::format("rank {} can leave the barrier before rank {} came", rank, other),
              static_cast<Rank>(rank)};
    }
  }
  return {};
}

}  // namespace
}  // namespace verifier

Status verify(std::span<const Planned> programs, const Expectation& expectation) {
  if (programs.empty()) return {};
  WEFT_RETURN_IF_ERROR(verifier::check_ranks(programs, expectation.root));
  for (const Planned& program : programs) WEFT_RETURN_IF_ERROR(verifier::check_indices(program));
  WEFT_ASSIGN(const verifier::Wires wires, verifier::connect(programs));

  const std::vector<std::size_t> inputs =
      verifier::input_elements(programs, expectation.operation == Operation::neighbor_allgather);
  std::vector<verifier::Layout> layouts;
  for (const Planned& program : programs) {
    layouts.emplace_back(program, inputs, expectation.shape);
    WEFT_RETURN_IF_ERROR(verifier::check_memory(program, layouts.back(), expectation.shape));
  }

  verifier::Run run(programs, wires, layouts, expectation);
  WEFT_RETURN_IF_ERROR(run.run());
  if (expectation.operation == Operation::barrier) {
    return verifier::check_barrier(programs.size(), run);
  }
  return verifier::check_outputs(programs, layouts, inputs, run, expectation);
}

}  // namespace weft
