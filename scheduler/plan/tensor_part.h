// tensor_part: one part of a tensor in an allreduce by stages. The algorithms bcube, torus, ring,
// multi_ring and hierarchical are made of such parts. Internal.
//
// A part is a run of consecutive blocks. Example: 4 ranks in two stages of 2 members, a part of 4
// blocks. In stage 1 ranks 0 and 1 both hold blocks 0-3; rank 0 keeps the sum of blocks 0-1, and
// rank 1 that of 2-3. In stage 2 ranks 0 and 2 both hold blocks 0-1; rank 0 keeps the sum of block
// 0, now over all ranks, and rank 2 that of block 1. Then the stages are gathered in reverse order.
//
// In general, the blocks that a rank holds before a stage are the stage's window. All members of
// the stage hold sums over the same window. It is cut into one share for each member. Each member
// keeps its own share, reduced over the members. That share is the window of the next stage.
//
// A stage consists of moves: some reduce, and as many gather later. A move is a few sends and the
// combines of what arrives. All ranks make the moves of all parts in the same order (plan_parts).
// So on every edge the k-th message sent is the k-th taken, and no rank waits for a message of a
// move that comes later in the order than its own.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "scheduler/plan/builder.h"

namespace weft {

class TensorPart {
 public:
  enum class Passing : std::uint8_t {
    direct,  // each member to all others in one move; combined in the order of the members
    ring,    // member i to member i+1, in one move fewer than there are members
  };
  struct Stage {
    Passing passing = Passing::direct;
    std::vector<Rank> members;  // member i keeps share i
    int place = 0;              // this rank among them
  };
  // How the first stage combines its window, and where the sums go.
  struct Sums {
    Combining combining = Combining::reduce;
    Buffer buffer = Buffer::output;  // scratch is possible for a part with one stage
    bool are_whole = true;           // after the last stage (Step::is_whole)
  };

  // `window` says where the part's blocks are at first. In the input they are raw: the first
  // combine of a contribution applies the scale. In the output they are sums already. The number of
  // blocks is a multiple of the product of the stages' numbers of members.
  TensorPart(Slice window, std::vector<Stage> stages, Shape shape, Sums sums);
  TensorPart(Slice window, std::vector<Stage> stages, Shape shape)
      : TensorPart(window, std::move(stages), shape, Sums{}) {}

  [[nodiscard]] int moves() const { return static_cast<int>(moves_.size()); }
  void send(PlanBuilder& plan, const View& view, int move);
  void combine(PlanBuilder& plan, const View& view, int move);
  void make_move(PlanBuilder& plan, const View& view, int move) {
    send(plan, view, move);
    combine(plan, view, move);
  }
  // Adds the part's peers to the view, in no particular order.
  void add_peers(View& view) const;

 private:
  struct Window {
    Stage stage;
    Slice slice;                      // where its blocks are before the stage
    std::vector<std::uint32_t> sent;  // by share (direct) or by phase (ring): the step that sent it

    [[nodiscard]] int length() const { return static_cast<int>(stage.members.size()); }
    // The share of the member `hops` places after ours, as a slice of `buffer`.
    [[nodiscard]] Slice share(int hops, Buffer buffer) const;
    [[nodiscard]] Rank member(int hops) const;
  };
  struct Move {
    std::size_t window;
    int phase;   // of a ring
    bool gives;  // a move that gathers
  };

  [[nodiscard]] bool is_raw(const Window& window) const;
  [[nodiscard]] Weight weight_of(const Window& window) const;
  // The sends that must end before a gathered share is written over the one that was sent.
  [[nodiscard]] std::vector<std::uint32_t> hazards(const Window& window, bool sent_a_sum,
                                                   std::uint32_t sent) const;
  void send_directly(PlanBuilder& plan, const View& view, Window& window, bool gives) const;
  // A sum of the window's last move.
  void combine_last(PlanBuilder& plan, const Window& window, Slice sum,
                    const std::vector<Operand>& terms) const;
  void combine_directly(PlanBuilder& plan, const View& view, const Window& window) const;
  void copy_directly(PlanBuilder& plan, const View& view, const Window& window) const;
  void send_around(PlanBuilder& plan, const View& view, Window& window, const Move& move) const;
  void combine_around(PlanBuilder& plan, const View& view, const Window& window,
                      const Move& move) const;

  std::vector<Window> windows_;
  std::vector<Move> moves_;
  Sums sums_;
  bool in_place_;
};

// The stage among the ranks that differ from `rank` in one digit only. The digit has `length`
// values, and ranks whose digits differ by 1 are `stride` apart.
[[nodiscard]] TensorPart::Stage stage_along(Rank rank, int stride, int length,
                                            TensorPart::Passing passing);
// The view of a rank that talks to the peers of these parts.
[[nodiscard]] View view_of_parts(Rank rank, int size, std::span<const TensorPart> parts);
// Into how many smaller parts each of `parts` parts is cut, if its first message has
// `message_bytes`. Parts that are under way at the same time should be short: a rank takes messages
// in the order of its program, and the messages of the next part wait meanwhile in slots, which
// hold only a few pieces. A single part is not cut.
[[nodiscard]] std::uint32_t slices_of(std::size_t parts, std::size_t message_bytes);
// Plans the moves of all parts, in turn. The next message of a part is sent as soon as it exists,
// before the program waits for anything else, so that all edges have data to carry. All parts have
// the same number of moves.
void plan_parts(PlanBuilder& plan, const View& view, std::span<TensorPart> parts);

}  // namespace weft
