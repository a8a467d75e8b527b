// tensor_part: the moves of a direct stage are those of split, the moves of a ring those of
// Patarasuk and Yuan (2009).
#include "scheduler/plan/tensor_part.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

constexpr Weight kScale{Weight::Kind::scale, 0};
// What a network's slots hold for one peer, about: longer messages would wait for their turn.
constexpr std::size_t kTurnBytes = std::size_t{1} << 20;
// Each costs a few steps for each stage; of a message of 64 MiB a turn is as long as it may be.
constexpr std::size_t kMostSlices = 64;

}  // namespace

Slice TensorPart::Window::share(int hops, Buffer buffer) const {
  const auto shares = static_cast<std::uint32_t>(length());
  const auto index = static_cast<std::uint32_t>((stage.place + hops + length()) % length());
  const std::uint32_t blocks = (slice.last - slice.first) / shares;
  return blocks_of(buffer, slice.first + index * blocks, slice.first + (index + 1) * blocks);
}

Rank TensorPart::Window::member(int hops) const {
  return stage.members[static_cast<std::size_t>((stage.place + hops + length()) % length())];
}

TensorPart::TensorPart(Slice window, std::vector<Stage> stages, Shape shape, Sums sums)
    : sums_(sums), in_place_(shape.in_place) {
  invariant(sums.buffer == Buffer::output || stages.size() == 1, "later stages read the output");
  for (Stage& stage : stages) {
    const auto shares = static_cast<std::uint32_t>(stage.members.size());
    invariant((window.last - window.first) % shares == 0, "a window has whole shares");
    windows_.push_back({std::move(stage), window, {}});
    window = windows_.back().share(0, Buffer::output);
  }
  const auto moves_of = [](const Window& made) {
    return made.stage.passing == Passing::direct ? 1 : made.length() - 1;
  };
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    for (int phase = 0; phase < moves_of(windows_[i]); ++phase) moves_.push_back({i, phase, false});
  }
  for (std::size_t i = windows_.size(); i-- > 0;) {
    for (int phase = 0; phase < moves_of(windows_[i]); ++phase) moves_.push_back({i, phase, true});
  }
}

void TensorPart::add_peers(View& view) const {
  for (const Window& window : windows_) {
    if (window.length() == 1) continue;
    if (window.stage.passing == Passing::ring) {
      view.in.push_back(window.member(-1));
      view.out.push_back(window.member(1));
      continue;
    }
    for (int hop = 1; hop < window.length(); ++hop) {
      view.in.push_back(window.member(hop));
      view.out.push_back(window.member(hop));
    }
  }
}

void TensorPart::send(PlanBuilder& plan, const View& view, int move) {
  const Move& made = moves_[static_cast<std::size_t>(move)];
  Window& window = windows_[made.window];
  if (window.stage.passing == Passing::ring) {
    send_around(plan, view, window, made);
  } else {
    send_directly(plan, view, window, made.gives);
  }
}

void TensorPart::combine(PlanBuilder& plan, const View& view, int move) {
  const Move& made = moves_[static_cast<std::size_t>(move)];
  const Window& window = windows_[made.window];
  if (window.stage.passing == Passing::ring) {
    combine_around(plan, view, window, made);
  } else if (made.gives) {
    copy_directly(plan, view, window);
  } else {
    combine_directly(plan, view, window);
  }
}

bool TensorPart::is_raw(const Window& window) const {
  return window.slice.buffer == Buffer::input;
}

// Each contribution is scaled once: by the first who combines it.
Weight TensorPart::weight_of(const Window& window) const {
  return is_raw(window) ? kScale : Weight{};
}

std::vector<std::uint32_t> TensorPart::hazards(const Window& window, bool sent_a_sum,
                                               std::uint32_t sent) const {
  if (!sent_a_sum && is_raw(window) && !in_place_) return {};
  return {sent};
}

// Clockwise from the next member, so that not everybody's first message goes to member 0.
void TensorPart::send_directly(PlanBuilder& plan, const View& view, Window& window,
                               bool gives) const {
  std::vector<std::uint32_t> edges;
  for (int hop = 1; hop < window.length(); ++hop) {
    edges.push_back(edge_to(view.out, window.member(hop)));
  }
  if (edges.empty()) return;
  if (gives) {
    plan.send(window.share(0, Buffer::output), edges);
    return;
  }
  for (int hop = 1; hop < window.length(); ++hop) {
    const std::uint32_t edge = edges[static_cast<std::size_t>(hop - 1)];
    window.sent.push_back(
        plan.send(window.share(hop, window.slice.buffer), {edge}, sums_.combining));
  }
}

void TensorPart::combine_last(PlanBuilder& plan, const Window& window, Slice sum,
                              const std::vector<Operand>& terms) const {
  if (sums_.are_whole && &window == &windows_.back()) {
    plan.combine_whole(sums_.combining, sum, terms);
  } else {
    plan.combine(sums_.combining, sum, terms);
  }
}

// Our own share was sent to nobody, so in place it may be overwritten at once.
void TensorPart::combine_directly(PlanBuilder& plan, const View& view, const Window& window) const {
  const Weight weight = weight_of(window);
  std::vector<Operand> terms;
  terms.reserve(window.stage.members.size());
  for (const Rank member : window.stage.members) {
    terms.push_back(member == view.rank ? local(window.share(0, window.slice.buffer), weight)
                                        : message(edge_to(view.in, member), weight));
  }
  combine_last(plan, window, window.share(0, sums_.buffer), terms);
}

// What comes back was made from what we sent, so the hazards never wait.
void TensorPart::copy_directly(PlanBuilder& plan, const View& view, const Window& window) const {
  for (int hop = 1; hop < window.length(); ++hop) {
    plan.combine(Combining::copy, window.share(hop, Buffer::output),
                 {message(edge_to(view.in, window.member(hop)))},
                 hazards(window, false, window.sent[static_cast<std::size_t>(hop - 1)]));
  }
}

// Share i's sum starts at member i+1 with that one's own contribution, visits i+2, i+3, … and is
// complete at member i. The complete share then goes around once more.
void TensorPart::send_around(PlanBuilder& plan, const View& view, Window& window,
                             const Move& move) const {
  const std::uint32_t edge = edge_to(view.out, window.member(1));
  if (move.gives) {
    plan.send(window.share(-move.phase, Buffer::output), {edge});
    return;
  }
  const Buffer source = move.phase == 0 ? window.slice.buffer : sums_.buffer;
  window.sent.push_back(plan.send(window.share(-1 - move.phase, source), {edge}, sums_.combining));
}

void TensorPart::combine_around(PlanBuilder& plan, const View& view, const Window& window,
                                const Move& move) const {
  const std::uint32_t edge = edge_to(view.in, window.member(-1));
  const bool is_first = move.phase == 0;
  if (move.gives) {
    plan.combine(Combining::copy, window.share(-1 - move.phase, Buffer::output), {message(edge)},
                 hazards(window, !is_first, window.sent[static_cast<std::size_t>(move.phase)]));
    return;
  }
  const Weight weight = weight_of(window);
  const Slice sum = window.share(-2 - move.phase, sums_.buffer);
  const std::vector<Operand> terms{
      message(edge, is_first ? weight : Weight{}),
      local(window.share(-2 - move.phase, window.slice.buffer), weight)};
  if (move.phase == window.length() - 2) {
    combine_last(plan, window, sum, terms);
  } else {
    plan.combine(sums_.combining, sum, terms);
  }
}

TensorPart::Stage stage_along(Rank rank, int stride, int length, TensorPart::Passing passing) {
  const int digit = rank / stride % length;
  TensorPart::Stage stage{passing, {}, digit};
  for (int value = 0; value < length; ++value) {
    stage.members.push_back(rank + (value - digit) * stride);
  }
  return stage;
}

View view_of_parts(Rank rank, int size, std::span<const TensorPart> parts) {
  View view{rank, size, {}, {}};
  for (const TensorPart& part : parts) part.add_peers(view);
  return sorted(std::move(view));
}

std::uint32_t slices_of(std::size_t parts, std::size_t message_bytes) {
  if (parts < 2) return 1;
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(message_bytes / kTurnBytes, 1, kMostSlices));
}

void plan_parts(PlanBuilder& plan, const View& view, std::span<TensorPart> parts) {
  if (parts.empty()) return;
  const int moves = parts.front().moves();
  for (TensorPart& part : parts) {
    invariant(part.moves() == moves, "parts have as many moves each");
    part.send(plan, view, 0);
  }
  for (int move = 0; move < moves; ++move) {
    for (TensorPart& part : parts) {
      part.combine(plan, view, move);
      if (move + 1 < moves) part.send(plan, view, move + 1);
    }
  }
}

}  // namespace weft
