// critical: from the last end back to a beginning, each time to what was waited for.
#include "scheduler/simulate/critical.h"

#include <algorithm>

namespace weft::simulator {
namespace {

class Walk {
 public:
  Walk(const Play& play, const Programs& programs) : play_(play), programs_(programs) {}

  std::vector<Cause> back_from(Rank rank) {
    go_to_end_of(rank);
    // Each turn goes to an earlier step or message.
    for (std::size_t left = programs_.steps.size() + programs_.messages.size();
         left > 0 && !at_beginning(); --left)
      back();
    if (at_beginning()) add(Cause::Kind::lateness, begin_us_, -1, rank_);
    std::ranges::sort(causes_, [](const Cause& a, const Cause& b) { return a.us > b.us; });
    return causes_;
  }

 private:
  [[nodiscard]] bool at_beginning() const {
    return step_ == programs_.first_step[static_cast<std::size_t>(rank_)];
  }

  void go_to_end_of(Rank rank) {
    rank_ = rank;
    step_ = programs_.first_step[static_cast<std::size_t>(rank) + 1];
    begin_us_ = play_.end_us(rank);
    if (play_.last_release_us(rank) > begin_us_) released(play_.last_released(rank));
  }

  // The step before, which ended when what came after it began.
  void back() {
    const Step& step = programs_.steps[--step_];
    begin_us_ = step.begin_us;
    if (step.kind == Step::Kind::burst) return add(Cause::Kind::posting, step.end_us - begin_us_);
    const Cause::Kind work = work_of(step);
    if (step.wait == Step::Wait::own) return add(work, step.end_us - begin_us_);
    const Message& message = programs_.messages[step.message];
    if (step.wait == Step::Wait::release) {
      add(work, step.end_us - message.release_us);
      return released(step.message);
    }
    add(work, step.end_us - message.arrival_us);
    add(Cause::Kind::latency, message.arrival_us - message.left_us);
    sent(step.message);
  }

  [[nodiscard]] Cause::Kind work_of(const Step& step) const {
    const auto from_memory = [&](std::uint32_t number) {
      return programs_.messages[number].rail < 0;
    };
    return std::ranges::any_of(programs_.takes_of(step), from_memory) ? Cause::Kind::memory
                                                                      : Cause::Kind::combining;
  }

  // To the combine that took a message, whose end was waited for.
  void released(std::uint32_t number) {
    const Message& message = programs_.messages[number];
    rank_ = programs_.receiver(message);
    if (message.taker == kNone) return sent(number);  // copied at once
    step_ = message.taker + 1;
    add(Cause::Kind::latency, message.release_us - programs_.steps[message.taker].end_us);
  }

  // Along the wire to the burst that posted a message, or an earlier one of its channel that was in
  // the way.
  void sent(std::uint32_t number) {
    const Message* message = &programs_.messages[number];
    const Channel& channel = programs_.channels[message->channel];
    const auto first = programs_.order.begin() + channel.first;
    auto place = std::lower_bound(first, first + channel.count, number);
    add_wire(*message);
    while (place != first && message->begin_us > programs_.steps[message->poster].end_us) {
      message = &programs_.messages[*--place];
      add_wire(*message);
    }
    rank_ = channel.from;
    step_ = message->poster + 1;
  }

  void add_wire(const Message& message) {
    add(Cause::Kind::wire, message.left_us - message.begin_us, static_cast<int>(message.link));
  }

  void add(Cause::Kind kind, double us, int link = -1, Rank rank = kNoRank) {
    if (us <= 0) return;
    const auto same = [&](const Cause& cause) { return cause.kind == kind && cause.link == link; };
    const auto found = std::ranges::find_if(causes_, same);
    if (found == causes_.end())
      causes_.push_back({kind, link, rank, us});
    else
      found->us += us;
  }

  const Play& play_;
  const Programs& programs_;
  Rank rank_ = 0;
  std::uint32_t step_ = 0;  // what lies before it is still to be explained
  double begin_us_ = 0;     // of what was explained last
  std::vector<Cause> causes_;
};

}  // namespace

std::vector<Cause> critical_path(const Play& play, const Programs& programs, Rank rank) {
  return Walk(play, programs).back_from(rank);
}

}  // namespace weft::simulator
