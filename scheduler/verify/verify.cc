// verify: the passes in order, and the comparison of what came out with what was asked for.
#include "scheduler/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "scheduler/verify/layout.h"
#include "scheduler/verify/local.h"
#include "scheduler/verify/run.h"
#include "scheduler/verify/sizes.h"
#include "scheduler/verify/values.h"
#include "scheduler/verify/wires.h"

namespace weft {
namespace verifier {
namespace {

// A source of an output and its weight there.
struct Source {
  Rank rank;
  Field factor;
};

Status check_machines(std::size_t ranks, const Expectation& expectation) {
  const bool has_machines = expectation.operation == Collective::hierarchical_neighbor_allreduce;
  if (expectation.machine.size() != (has_machines ? ranks : 0)) {
    return {Code::invalid_argument,
            fmt::format("{} machines are named for {} ranks", expectation.machine.size(),
                        has_machines ? ranks : 0)};
  }
  for (const int machine : expectation.machine) {
    if (machine >= 0 && static_cast<std::size_t>(machine) < expectation.machines.size()) continue;
    return {Code::invalid_argument, fmt::format("machine {} has no neighbor sets", machine)};
  }
  return {};
}

Status check_ranks(std::span<const Planned> programs, const Expectation& expectation) {
  const Rank root = expectation.root;
  if (root < 0 || static_cast<std::size_t>(root) >= programs.size()) {
    return {Code::invalid_argument, fmt::format("there is no rank {} to be the root", root), root};
  }
  for (const Rank member : expectation.members) {
    if (member >= 0 && static_cast<std::size_t>(member) < programs.size()) continue;
    return {Code::invalid_argument, fmt::format("there is no rank {} to be a member", member),
            member};
  }
  if (expectation.operation == Collective::send && expectation.members.size() != 2) {
    return {Code::invalid_argument, "a send has two members"};
  }
  WEFT_RETURN_IF_ERROR(check_machines(programs.size(), expectation));
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

// The mean of the machine, and those of its in-neighbors.
std::vector<Source> sources_of_machines(const Symbols& symbols, const View& view,
                                        const Expectation& expectation) {
  const auto machine_of = [&](Rank rank) {
    return expectation.machine[static_cast<std::size_t>(rank)];
  };
  const int own = machine_of(view.rank);
  const std::vector<Rank>& in = expectation.machines[static_cast<std::size_t>(own)].in;
  std::vector<Source> sources;
  std::vector<bool> seen(expectation.machines.size());
  for (Rank rank = 0; rank < view.size; ++rank) {
    if (machine_of(rank) != own && !std::ranges::binary_search(in, machine_of(rank))) continue;
    if (expectation.input == MeanInput::of_machine) {
      const auto machine = static_cast<std::size_t>(machine_of(rank));
      if (!seen[machine]) sources.push_back({rank, symbols.edge(view.rank, rank)});
      seen[machine] = true;
      continue;
    }
    const Field mean =
        multiply(symbols.scale(rank, view.size), symbols.completion(rank, view.size));
    sources.push_back({rank, multiply(symbols.edge(view.rank, rank), mean)});
  }
  return sources;
}

// What each rank's input counts in an average.
Field share_of_mean(const Symbols& symbols, const View& view) {
  return multiply(symbols.scale(view.rank, view.size), symbols.completion(view.rank, view.size));
}

std::vector<Source> sources_of_all(const Symbols& symbols, const View& view) {
  std::vector<Source> sources;
  for (Rank rank = 0; rank < view.size; ++rank)
    sources.push_back({rank, share_of_mean(symbols, view)});
  return sources;
}

// The mean over a group; that of one rank is its input.
std::vector<Source> sources_of_group(const Symbols& symbols, const View& view,
                                     std::span<const Rank> members) {
  std::vector<Source> sources;
  for (const Rank rank : members) {
    const Field factor = members.size() == 1 ? 1 : share_of_mean(symbols, view);
    sources.push_back({rank, factor});
  }
  return sources;
}

// The terms of the sum that a rank's output is; none where it is no sum.
std::vector<Source> sources_of(const Expectation& expectation, const Symbols& symbols,
                               const View& view) {
  switch (expectation.operation) {
    case Collective::neighbor_allreduce:
      return sources_of_neighbors(symbols, view);
    case Collective::allreduce:
    case Collective::reduce_scatter:
    case Collective::reduce:
      return sources_of_all(symbols, view);
    case Collective::group_average:
      return sources_of_group(symbols, view, expectation.members);
    case Collective::hierarchical_neighbor_allreduce:
      return sources_of_machines(symbols, view, expectation);
    default:
      return {};
  }
}

// A reduction is asked for as an average and, with the same plan, as a product; a neighbor sum is
// one sum.
std::vector<Value> reduced(const Symbols& symbols, const std::vector<Source>& sources,
                           Extent elements, bool has_operator) {
  std::vector<Value> values;
  for (std::size_t i = elements.first; i < elements.last; ++i) {
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

void append_input(std::vector<Value>& values, const Symbols& symbols, Rank rank, Extent elements) {
  for (std::size_t i = elements.first; i < elements.last; ++i) {
    values.push_back(symbols.input_value(rank, i));
  }
}

std::vector<Value> inputs_of(const Symbols& symbols, std::span<const Rank> ranks,
                             std::span<const Sizes> sizes) {
  std::vector<Value> values;
  for (const Rank rank : ranks) {
    append_input(values, symbols, rank, {0, sizes[static_cast<std::size_t>(rank)].input});
  }
  return values;
}

std::vector<Value> inputs_of_all(const Symbols& symbols, std::span<const Sizes> sizes) {
  std::vector<Value> values;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    append_input(values, symbols, static_cast<Rank>(rank), {0, sizes[rank].input});
  }
  return values;
}

// Block `block` of an input that is cut as the caller gave it.
Extent given_block(const Sizes& sizes, std::size_t block) {
  return {sizes.input_cuts[block], sizes.input_cuts[block + 1]};
}

std::vector<Value> blocks_for(std::size_t rank, const Symbols& symbols,
                              std::span<const Sizes> sizes) {
  std::vector<Value> values;
  for (std::size_t from = 0; from < sizes.size(); ++from) {
    append_input(values, symbols, static_cast<Rank>(from), given_block(sizes[from], rank));
  }
  return values;
}

bool is_member(const Expectation& expectation, Rank rank) {
  return std::ranges::find(expectation.members, rank) != expectation.members.end();
}

// What rank `view.rank` should have in its output.
std::vector<Value> expected_output(const Expectation& expectation, const Symbols& symbols,
                                   const View& view, const std::vector<Source>& sources,
                                   std::span<const Sizes> sizes) {
  const auto rank = static_cast<std::size_t>(view.rank);
  const auto root = static_cast<std::size_t>(expectation.root);
  const Extent whole{0, sizes[rank].input};
  std::vector<Value> values;
  switch (expectation.operation) {
    case Collective::neighbor_allreduce:
    case Collective::hierarchical_neighbor_allreduce:
      return reduced(symbols, sources, whole, false);
    case Collective::allreduce:
      return reduced(symbols, sources, whole, true);
    case Collective::neighbor_allgather:
      return inputs_of(symbols, view.in, sizes);
    case Collective::broadcast:
      return inputs_of(symbols, std::span(&expectation.root, 1), sizes);
    case Collective::barrier:
      break;
    case Collective::allgather:
      return inputs_of_all(symbols, sizes);
    case Collective::gather:
      return rank == root ? inputs_of_all(symbols, sizes) : values;
    case Collective::reduce_scatter:
      return reduced(symbols, sources, given_block(sizes[rank], rank), true);
    case Collective::reduce:
      return rank == root ? reduced(symbols, sources, whole, true) : values;
    case Collective::scatter:
      append_input(values, symbols, expectation.root, given_block(sizes[root], rank));
      break;
    case Collective::alltoall:
      return blocks_for(rank, symbols, sizes);
    case Collective::send:
      return view.rank == expectation.members[1]
                 ? inputs_of(symbols, expectation.members.first(1), sizes)
                 : values;
    case Collective::group_average:
      return is_member(expectation, view.rank) ? reduced(symbols, sources, whole, true) : values;
    case Collective::pair_average:
    case Collective::local_allreduce:
      break;
  }
  return values;
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

// A rank whose bits those of `rank` must equal, or kNoRank.
Rank model_of(const Expectation& expectation, Rank rank) {
  switch (expectation.operation) {
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::allgather:
      return 0;
    case Collective::group_average:
      return is_member(expectation, rank) ? expectation.members[0] : kNoRank;
    case Collective::hierarchical_neighbor_allreduce:
      return static_cast<Rank>(
          std::ranges::find(expectation.machine,
                            expectation.machine[static_cast<std::size_t>(rank)]) -
          expectation.machine.begin());
    default:
      return kNoRank;
  }
}

Status check_outputs(std::span<const Planned> programs, std::span<const Layout> layouts,
                     std::span<const Sizes> sizes, const Run& run, const Expectation& expectation) {
  const Symbols symbols(expectation.seed, expectation.machine, expectation.input);
  std::vector<Source> sources;
  std::vector<Value> expected;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const View& view = programs[rank].view;
    const Rank model = model_of(expectation, view.rank);
    // Where all should have the same, it is computed once.
    const bool is_everybodys = expectation.members.empty() && expectation.machine.empty();
    if (rank == 0 || model == kNoRank || !is_everybodys) {
      sources = sources_of(expectation, symbols, view);
      expected = expected_output(expectation, symbols, view, sources, sizes);
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
      if (model == kNoRank) continue;
      const auto at = static_cast<std::size_t>(model);
      if (actual.bits != run.at(at, layouts[at].whole(Buffer::output).first + i).bits) {
        return wrong_output(
            programs[rank], layouts[rank], output.first + i,
            fmt::format("is combined in another order than at rank {}, so its bits may differ",
                        model));
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
  WEFT_RETURN_IF_ERROR(verifier::check_ranks(programs, expectation));
  for (const Planned& program : programs) WEFT_RETURN_IF_ERROR(verifier::check_indices(program));
  WEFT_ASSIGN(const verifier::Wires wires, verifier::connect(programs));

  const std::vector<verifier::Sizes> sizes = verifier::choose_sizes(programs, expectation);
  std::vector<verifier::Layout> layouts;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    WEFT_RETURN_IF_ERROR(verifier::check_given(programs[rank], sizes[rank]));
    layouts.emplace_back(programs[rank], sizes[rank], expectation.shape);
    WEFT_RETURN_IF_ERROR(verifier::check_memory(programs[rank], layouts.back(), expectation.shape));
  }

  verifier::Run run(programs, wires, layouts, expectation);
  WEFT_RETURN_IF_ERROR(run.run());
  if (expectation.operation == Collective::barrier) {
    return verifier::check_barrier(programs.size(), run);
  }
  return verifier::check_outputs(programs, layouts, sizes, run, expectation);
}

}  // namespace weft
