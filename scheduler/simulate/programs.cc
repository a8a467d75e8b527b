// programs: rank by rank; then takings find their messages.
#include "scheduler/simulate/programs.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/simulate/sizes.h"

namespace weft::simulator {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

class Compiler {
 public:
  Compiler(const SimulatedJob& job, const SimulateOptions& options, int alike, bool equalized)
      : job_(job), options_(options), alike_(alike), equalized_(equalized) {
    to_.lanes = options.lanes;
  }

  Result<Programs> compile() {
    for (Rank rank = 0; rank < alike_; ++rank) {
      begin_rank();
      WEFT_RETURN_IF_ERROR(add(rank, job_.plan(rank)));
    }
    begin_rank();
    WEFT_RETURN_IF_ERROR(match());
    return std::move(to_);
  }

 private:
  // A taking before its message is known.
  struct Taking {
    Rank by = 0;
    Rank from = 0;
    std::uint32_t ordinal = 0;
    std::uint64_t bytes = 0;
  };

  void begin_rank() {
    to_.first_step.push_back(static_cast<std::uint32_t>(to_.steps.size()));
    to_.first_channel.push_back(static_cast<std::uint32_t>(to_.channels.size()));
  }

  Status add(Rank rank, const Planned& planned) {
    for (std::size_t edge = 0; edge < planned.view.out.size(); ++edge) {
      const int rail = planned.plan.rails.empty() ? kAnyRail : planned.plan.rails[edge];
      to_.channels.push_back({rank, planned.view.out[edge], rail});
    }
    taken_.assign(planned.view.in.size(), 0);
    sent_.assign(planned.plan.steps.size(), {});
    const Sizes sizes(planned.plan, job_.bytes, equalized_);
    const std::size_t first = to_.messages.size();
    for (std::size_t i = 0; i < planned.plan.steps.size(); ++i) {
      const weft::Step& step = planned.plan.steps[i];
      if (step.kind == weft::Step::Kind::send)
        add_send(planned.plan, step, sizes, i);
      else
        add_combine(planned, step, sizes);
    }
    if (to_.messages.size() > options_.most_messages) return too_many(planned.plan);
    order_channels(first);
    return {};
  }

  void add_send(const Plan& plan, const weft::Step& step, const Sizes& sizes, std::size_t index) {
    const bool follows =
        to_.steps.size() > to_.first_step.back() && to_.steps.back().kind == Step::Kind::burst;
    const auto first = static_cast<std::uint32_t>(to_.messages.size());
    if (!follows) to_.steps.push_back({.messages = {first, 0}});
    to_.steps.back().messages.count += step.count;
    const std::uint64_t bytes = sizes.bytes_of(step.slice);
    const auto poster = static_cast<std::uint32_t>(to_.steps.size() - 1);
    for (std::uint32_t i = 0; i < step.count; ++i) {
      const std::uint32_t channel = to_.first_channel.back() + plan.edges[step.first + i];
      to_.messages.push_back({.bytes = bytes, .channel = channel, .poster = poster});
    }
    sent_[index] = {first, step.count};
  }

  void add_combine(const Planned& planned, const weft::Step& step, const Sizes& sizes) {
    Step combine{.kind = Step::Kind::combine, .bytes = sizes.bytes_of(step.slice)};
    combine.messages.first = static_cast<std::uint32_t>(takings_.size());
    for (std::uint32_t i = 0; i < step.count; ++i) {
      const Operand& operand = planned.plan.operands[step.first + i];
      if (operand.kind == Operand::Kind::local) {
        ++combine.locals;
        continue;
      }
      takings_.push_back({planned.view.rank, planned.view.in[operand.edge], taken_[operand.edge]++,
                          combine.bytes});
      ++combine.messages.count;
    }
    combine.hazards.first = static_cast<std::uint32_t>(to_.hazards.size());
    combine.hazards.count = step.hazard_count;
    for (std::uint32_t i = 0; i < step.hazard_count; ++i)
      to_.hazards.push_back(sent_[planned.plan.hazards[step.hazard_first + i]]);
    to_.steps.push_back(combine);
  }

  // The rank's messages from `first` on, by channel, in the order in which they are sent.
  void order_channels(std::size_t first) {
    for (std::size_t m = first; m < to_.messages.size(); ++m)
      ++to_.channels[to_.messages[m].channel].count;
    auto next = static_cast<std::uint32_t>(to_.order.size());
    for (std::size_t c = to_.first_channel.back(); c < to_.channels.size(); ++c) {
      to_.channels[c].first = next;
      next += to_.channels[c].count;
    }
    to_.order.resize(next);
    for (std::size_t m = first; m < to_.messages.size(); ++m) {
      Channel& channel = to_.channels[to_.messages[m].channel];
      to_.order[channel.first + channel.posted++] = static_cast<std::uint32_t>(m);
    }
    for (std::size_t c = to_.first_channel.back(); c < to_.channels.size(); ++c)
      to_.channels[c].posted = 0;
  }

  // The channel of the sender's like to the taker's like; null: there is none.
  Channel* channel_of(const Taking& taking) {
    const Rank from = taking.from % alike_;
    const Rank to = (taking.by - taking.from + from + job_.ranks) % job_.ranks;
    const auto first = to_.channels.begin() + to_.first_channel[at(from)];
    const auto last = to_.channels.begin() + to_.first_channel[at(from) + 1];
    const auto found = std::ranges::lower_bound(first, last, to, {}, &Channel::to);
    return found == last || found->to != to ? nullptr : &*found;
  }

  Status match() {
    to_.takes.reserve(takings_.size());
    for (const Taking& taking : takings_) {
      Channel* channel = channel_of(taking);
      if (channel == nullptr || taking.ordinal >= channel->count)
        return mismatch(taking, "is not sent");
      ++channel->taken;
      const std::uint32_t message = to_.order[channel->first + taking.ordinal];
      if (!equalized_ && to_.messages[message].bytes != taking.bytes)
        return mismatch(taking, "has another size");
      to_.takes.push_back(message);
    }
    for (const Channel& channel : to_.channels) {
      if (channel.taken == channel.count) continue;
      return {Code::mismatch,
              fmt::format("rank {} sends rank {} {} messages and {} are taken",
                          to_.rank_of(channel.from), to_.rank_of(channel.to), channel.count,
                          channel.taken),
              to_.rank_of(channel.from)};
    }
    return {};
  }

  [[nodiscard]] Status mismatch(const Taking& taking, std::string_view what) const {
    return {Code::mismatch,
            fmt::format("message {} that rank {} takes from rank {} {}", taking.ordinal,
                        to_.rank_of(taking.by), to_.rank_of(taking.from), what),
            to_.rank_of(taking.by)};
  }

  [[nodiscard]] Status too_many(const Plan& plan) const {
    return {Code::exhausted,
            fmt::format("{} {} on {} ranks: more than {} messages to simulate", plan.operation,
                        plan.algorithm, to_.rank_of(job_.ranks), options_.most_messages)};
  }

  const SimulatedJob& job_;
  const SimulateOptions& options_;
  int alike_;
  bool equalized_;
  Programs to_;
  std::vector<Taking> takings_;
  std::vector<std::uint32_t> taken_;  // by in-edge of the rank being compiled
  std::vector<Messages> sent_;        // by step of its plan
};

}  // namespace

Result<Programs> compile(const SimulatedJob& job, const SimulateOptions& options, int alike,
                         bool equalized) {
  return Compiler(job, options, alike, equalized).compile();
}

}  // namespace weft::simulator
