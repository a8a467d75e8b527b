// tensor_part: a part of the tensor on its way through an allreduce by stages: the body that bcube,
// torus, the rings and hierarchical share. Internal.
//
// A part is a run of blocks. At each stage this rank is in a group of ranks that all hold sums over
// the same window of those blocks. The window is cut in a share for each member, and each member is
// left with its share, reduced over the group: that is the window of the next stage. The share of
// the last stage is complete, and the stages give their shares back in reverse order.
//
// A stage is made in moves, some of them on the way to the shares and as many on the way back. A
// move is a few sends and the combines of what comes. All ranks make the moves of all parts in the
// same order (plan_parts), so on every edge the k-th message sent is the k-th taken, and nobody
// waits for a move that comes later than its own.
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
    direct,  // everybody to everybody in one move, combined in the order of the members
    ring,    // member i to member i+1, in as many moves as there are other members
  };
  struct Stage {
    Passing passing = Passing::direct;
    std::vector<Rank> members;  // member i keeps share i
    int place = 0;              // this rank among them
  };
  // What the first stage makes of its window.
  struct Sums {
    Combining combining = Combining::reduce;
    Buffer buffer = Buffer::output;  // scratch: of a part with one stage
  };

  // `window`: the part's blocks where they are at first. In the input they are raw, and the first
  // to combine a contribution scales it; in the output they are sums already. Their number is a
  // multiple of the product of the stages' members.
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
  // Adds whom the part talks to; in no order.
  void add_peers(View& view) const;

 private:
  struct Window {
    Stage stage;
    Slice slice;                      // where its blocks are before the stage
    std::vector<std::uint32_t> sent;  // by share (direct) or by phase (ring): the step that sent it

    [[nodiscard]] int length() const { return static_cast<int>(stage.members.size()); }
    // The share `hops` places after ours, as it is in `buffer`.
    [[nodiscard]] Slice share(int hops, Buffer buffer) const;
    [[nodiscard]] Rank member(int hops) const;
  };
  struct Move {
    std::size_t window;
    int phase;   // of a ring
    bool gives;  // on the way back
  };

  [[nodiscard]] bool is_raw(const Window& window) const;
  [[nodiscard]] Weight weight_of(const Window& window) const;
  // What must be waited for before a share that comes back is written over the one that was sent.
  [[nodiscard]] std::vector<std::uint32_t> hazards(const Window& window, bool sent_a_sum,
                                                   std::uint32_t sent) const;
  void send_directly(PlanBuilder& plan, const View& view, Window& window, bool gives) const;
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

// The stage among the ranks that differ from `rank` in one digit only, which counts `stride` ranks
// and has `length` values.
[[nodiscard]] TensorPart::Stage stage_along(Rank rank, int stride, int length,
                                            TensorPart::Passing passing);
// The view of a rank that talks to the peers of these parts.
[[nodiscard]] View view_of_parts(Rank rank, int size, std::span<const TensorPart> parts);
// Into how many parts each of `parts` is cut once more, where its first message has so many bytes.
// Parts at work at the same time should be short: a rank takes messages in the order of its program,
// and those of the next part wait meanwhile in slots, which hold a few pieces and no more. A part
// alone stays whole.
[[nodiscard]] std::uint32_t slices_of(std::size_t parts, std::size_t message_bytes);
// All parts' moves, in turn. A part's next message is sent as soon as it is there, before anything
// else is waited for, so that all edges have something to carry. The parts have as many moves each.
void plan_parts(PlanBuilder& plan, const View& view, std::span<TensorPart> parts);

}  // namespace weft
