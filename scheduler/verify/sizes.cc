// verify_sizes: sizes by operation.
#include "scheduler/verify/sizes.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::verifier {
namespace {

// 1, 2, 3, 0, 1, …
std::size_t part_of(std::size_t rank) {
  return (rank + 1) % 4;
}

// What `from` has for `to` in an alltoall. In place it is as much in both directions.
std::size_t part_between(std::size_t from, std::size_t to, Shape shape) {
  return (shape.in_place ? from + to + 1 : 2 * from + to + 1) % 4;
}

template <typename Part>
std::vector<std::size_t> cuts_of(std::size_t blocks, Part part) {
  std::vector<std::size_t> cuts{0};
  for (std::size_t block = 0; block < blocks; ++block) cuts.push_back(cuts.back() + part(block));
  return cuts;
}

// Enough for each even partition's blocks, and not a multiple of their number.
std::size_t even_elements(std::span<const Planned> programs) {
  std::size_t blocks = 1;
  for (const Planned& program : programs) {
    for (const Partition& partition : program.plan.partition) {
      if (partition.kind != Partition::Kind::even) continue;
      blocks = std::max<std::size_t>(blocks, partition.blocks);
    }
  }
  return blocks + (blocks + 1) / 2;
}

void give_output(Sizes& sizes, std::vector<std::size_t> cuts) {
  sizes.output = cuts.back();
  sizes.output_cuts = std::move(cuts);
}

void give_input(Sizes& sizes, std::vector<std::size_t> cuts) {
  sizes.input = cuts.back();
  sizes.input_cuts = std::move(cuts);
}

void give_blocks(Sizes& sizes, std::size_t rank, std::span<const Planned> programs,
                 const Expectation& expectation, std::size_t even) {
  const std::size_t ranks = programs.size();
  const bool is_root = static_cast<Rank>(rank) == expectation.root;
  switch (expectation.operation) {
    case Collective::neighbor_allgather: {
      const std::vector<Rank>& in = programs[rank].view.in;
      sizes.input = even + rank % 3;
      sizes.may_be_in_place = false;
      give_output(sizes, cuts_of(in.size(), [&](std::size_t edge) {
                    return even + static_cast<std::size_t>(in[edge]) % 3;
                  }));
      return;
    }
    case Collective::allgather:
    case Collective::gather:
      sizes.input = part_of(rank);
      give_output(sizes, cuts_of(ranks, part_of));
      sizes.own_offset = sizes.output_cuts[rank];
      sizes.may_be_in_place = is_root || expectation.operation == Collective::allgather;
      return;
    case Collective::reduce_scatter:
    case Collective::scatter:
      give_input(sizes, cuts_of(ranks, part_of));
      sizes.output = part_of(rank);
      sizes.own_offset = sizes.input_cuts[rank];
      sizes.may_be_in_place = is_root || expectation.operation == Collective::reduce_scatter;
      return;
    case Collective::alltoall:
      give_input(sizes, cuts_of(ranks, [&](std::size_t to) {
                   return part_between(rank, to, expectation.shape);
                 }));
      give_output(sizes, cuts_of(ranks, [&](std::size_t from) {
                    return part_between(from, rank, expectation.shape);
                  }));
      return;
    default:
      return;
  }
}

}  // namespace

std::vector<Sizes> choose_sizes(std::span<const Planned> programs, const Expectation& expectation) {
  const std::size_t even = even_elements(programs);
  std::vector<Sizes> all(programs.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].input = all[rank].output = even;
    give_blocks(all[rank], rank, programs, expectation, even);
  }
  return all;
}

Status check_given(const Planned& program, const Sizes& sizes) {
  const Plan& plan = program.plan;
  for (const Buffer buffer : {Buffer::input, Buffer::output, Buffer::scratch}) {
    const Partition& partition = plan.partition_of(buffer);
    if (partition.kind != Partition::Kind::given) continue;
    const std::size_t cuts =
        sizes.cuts(buffer == Buffer::scratch ? plan.scratch_of : buffer).size();
    if (cuts == std::size_t{partition.blocks} + 1) continue;
    return {Code::invalid_argument,
            fmt::format("rank {}: {} given blocks where the operation has {}", program.view.rank,
                        partition.blocks, cuts == 0 ? 0 : cuts - 1),
            program.view.rank};
  }
  return {};
}

}  // namespace weft::verifier
