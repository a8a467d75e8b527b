// play: instants, and what a rank does in one. play_messages.cc has what messages do.
#include "scheduler/simulate/play.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace weft::simulator {
namespace {

// Instants that are this near are one: ranks that do the same are not set apart by rounding.
constexpr double kInstantUs = 1e-6;
constexpr double kRounding = 1e-12;  // of a time

double after_rounding(double time) {
  return time + kInstantUs + kRounding * time;
}

// Above so many messages rates may be off by a part in a thousand.
constexpr std::size_t kExactMessages = 100'000;

double slack_for(std::size_t messages) {
  return messages <= kExactMessages ? 1e-12 : 1e-3;
}

double combine_gbyte_per_s(const SimulatedJob& job, const SimulateOptions& options) {
  return options.combine_gbyte_per_s > 0 ? options.combine_gbyte_per_s
                                         : job.cluster.memory.combine_gbyte_per_s;
}

// A message takes a rail for each piece, if there are so many.
std::size_t most_paths(const SimulatedJob& job, const SimulateOptions& options,
                       const Programs& programs) {
  std::uint64_t most = 1;
  for (const Message& message : programs.messages) most = std::max(most, message.bytes);
  const std::uint64_t pieces = (most - 1) / options.piece_bytes + 1;
  return std::clamp<std::uint64_t>(job.cluster.rails.size(), 1, pieces);
}

}  // namespace

Play::Play(const SimulatedJob& job, const SimulateOptions& options, Links& links,
           Programs& programs)
    : options_(options),
      links_(links),
      programs_(programs),
      flows_(links.table(), most_paths(job, options, programs), links.most_on_path(),
             slack_for(programs.messages.size())),
      memory_bytes_per_us_(job.cluster.memory.gbyte_per_s * 1e3),
      combine_bytes_per_us_(combine_gbyte_per_s(job, options) * 1e3),
      states_(static_cast<std::size_t>(programs.ranks())) {
  for (Rank rank = 0; rank < programs_.ranks(); ++rank)
    of(rank).step = programs_.first_step[static_cast<std::size_t>(rank)];
  for (const Straggler& straggler : options.stragglers) {
    of(straggler.rank).clock = straggler.delay_us;
    of(straggler.rank).slowdown = straggler.slowdown;
  }
  for (Rank rank = programs_.ranks(); rank-- > 0;) runnable_.push_back(rank);
}

Status Play::run() {
  constexpr std::size_t kInstants = 256;  // between two reports
  for (std::size_t instants = 0;; ++instants) {
    if (options_.goes_on && instants % kInstants == 0 && !programs_.messages.empty() &&
        !options_.goes_on(static_cast<double>(left_) /
                          static_cast<double>(programs_.messages.size())))
      return {Code::closed, "the simulation was told to end"};
    while (!runnable_.empty()) {
      const Rank rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
      WEFT_RETURN_IF_ERROR(status_);
    }
    flows_.settle(now_);
    if (flows_.empty() && alarms_.empty()) return stuck();
    next_instant();
    WEFT_RETURN_IF_ERROR(status_);
  }
}

void Play::next_instant() {
  now_ = std::numeric_limits<double>::infinity();
  if (!flows_.empty()) now_ = flows_.next_end();
  if (!alarms_.empty()) now_ = std::min(now_, alarms_.top().time);
  const double last = after_rounding(now_);
  while (!alarms_.empty() && alarms_.top().time <= last) {
    runnable_.push_back(alarms_.top().rank);
    alarms_.pop();
  }
  while (!flows_.empty() && flows_.next_end() <= last) {
    const Flows::Ended ended = flows_.end_next(now_);
    if (ended.owner.is_reader) {
      runnable_.push_back(static_cast<Rank>(ended.owner.number));
    } else {
      programs_.messages[ended.owner.number].link = ended.link;
      leave(ended.owner.number);
    }
  }
}

// False: an alarm will wake the rank then.
bool Play::wait_until(Rank rank, double time) {
  if (time <= after_rounding(now_)) return true;
  alarms_.push({time, rank});
  return false;
}

// As many steps as the rank can take now.
void Play::advance(Rank rank) {
  State& state = of(rank);
  const std::uint32_t end = programs_.first_step[static_cast<std::size_t>(rank) + 1];
  while (state.step < end) {
    Step& step = programs_.steps[state.step];
    const bool took = step.kind == Step::Kind::burst ? advance_burst(rank, state, step)
                                                     : advance_combine(rank, state, step);
    if (!took) return;
    ++state.step;
    state.stage = Stage::begin;
  }
}

// All of a burst leaves when the last message is posted: a transport takes them as one list.
bool Play::advance_burst(Rank rank, State& state, Step& step) {
  if (state.stage == Stage::begin) {
    step.begin_us = state.clock;
    state.clock += options_.message_us * state.slowdown * step.messages.count;
    step.end_us = state.clock;
    state.stage = Stage::due;
    if (!wait_until(rank, state.clock)) return false;
  }
  for (std::uint32_t i = 0; i < step.messages.count; ++i)
    post(step.messages.first + i, state.phase + 1);
  return true;
}

bool Play::advance_combine(Rank rank, State& state, Step& step) {
  if (state.stage == Stage::begin) {
    step.begin_us = state.clock;
    state.missing = await_all(step);
    state.stage = Stage::waiting;
  }
  if (state.stage == Stage::waiting) {
    if (state.missing > 0) return false;
    state.stage = Stage::ready;
  }
  const Ready ready = readiness(state, step);
  const double bytes = static_cast<double>(step.bytes) * ready.terms_from_memory;
  if (!links_.is_memory_shared() || bytes == 0) {
    finish(state, step, ready, ready.begin_us + bytes / memory_bytes_per_us_ * state.slowdown);
    return true;
  }
  if (state.stage == Stage::ready) {
    state.stage = Stage::due;
    if (!wait_until(rank, ready.begin_us)) return false;
  }
  if (state.stage == Stage::due) {
    state.stage = Stage::reading;
    const Path path = links_.memory_path(rank);
    flows_.start({static_cast<std::uint32_t>(rank), true}, bytes, {&path, 1}, now_);
    return false;
  }
  finish(state, step, ready, now_);
  return true;
}

// How much is still to come: the combine is woken when it has.
std::uint32_t Play::await_all(const Step& step) {
  std::uint32_t missing = 0;
  for (const std::uint32_t number : programs_.takes_of(step)) {
    Message& message = programs_.messages[number];
    message.is_awaited = !message.has_left;
    missing += message.is_awaited ? 1 : 0;
  }
  for (const Messages& range : programs_.hazards_of(step)) {
    for (std::uint32_t i = 0; i < range.count; ++i) {
      Message& message = programs_.messages[range.first + i];
      if (message.is_released || message.is_release_awaited) continue;
      message.is_release_awaited = true;
      ++missing;
    }
  }
  return missing;
}

Play::Ready Play::readiness(const State& state, Step& step) const {
  Ready ready{.begin_us = state.clock};
  const auto wait_for = [&](double time, std::uint32_t message, Step::Wait wait) {
    if (time <= ready.begin_us) return;
    ready.begin_us = time;
    step.wait = wait;
    step.message = message;
  };
  for (const std::uint32_t number : programs_.takes_of(step)) {
    const Message& message = programs_.messages[number];
    const Channel& channel = programs_.channels[message.channel];
    if (links_.share_memory(channel.from, channel.to)) {
      ++ready.terms_from_memory;
      wait_for(message.arrival_us, number, Step::Wait::announcement);
    } else if (message.arrival_us >= ready.arrival_us) {
      ready.arrival_us = message.arrival_us;
      ready.arrived = number;
    }
  }
  for (const Messages& range : programs_.hazards_of(step)) {
    for (std::uint32_t i = 0; i < range.count; ++i) {
      const Message& message = programs_.messages[range.first + i];
      wait_for(message.release_us, range.first + i, Step::Wait::release);
    }
  }
  return ready;
}

// Pieces are combined while others arrive: after the last byte there is one piece to do.
void Play::finish(State& state, Step& step, const Ready& ready, double read_us) {
  const auto takes = programs_.takes_of(step);
  const auto bytes = static_cast<double>(step.bytes);
  const double piece = std::min(bytes, static_cast<double>(options_.piece_bytes));
  const auto from_network = static_cast<double>(takes.size() - ready.terms_from_memory);
  const double us_per_byte = state.slowdown / combine_bytes_per_us_;
  const double messages = options_.message_us * state.slowdown * static_cast<double>(takes.size());
  const double worked = read_us + messages + (from_network + step.locals) * bytes * us_per_byte;
  const double tail = (from_network + step.locals) * piece * us_per_byte;
  state.clock = worked;
  if (ready.arrived != kNone && ready.arrival_us + messages + tail > worked) {
    state.clock = ready.arrival_us + messages + tail;
    step.wait = Step::Wait::arrival;
    step.message = ready.arrived;
  }
  step.work_us = step.wait == Step::Wait::arrival ? state.clock - messages - tail : ready.begin_us;
  step.end_us = state.clock;
  for (const std::uint32_t number : takes) {
    Message& message = programs_.messages[number];
    message.taker = state.step;
    state.phase = std::max(state.phase, message.phase);
    release(number, state.clock);
  }
}

Status Play::stuck() const {
  for (Rank rank = 0; rank < programs_.ranks(); ++rank) {
    const State& state = of(rank);
    const auto number = static_cast<std::size_t>(rank);
    if (state.step == programs_.first_step[number + 1]) continue;
    const Step& step = programs_.steps[state.step];
    for (const std::uint32_t take : programs_.takes_of(step)) {
      const Message& message = programs_.messages[take];
      if (message.has_left) continue;
      return {Code::mismatch,
              fmt::format("rank {} waits for ever at step {} for rank {}", programs_.rank_of(rank),
                          state.step - programs_.first_step[number],
                          programs_.rank_of(programs_.sender(message))),
              programs_.rank_of(rank)};
    }
    return {Code::mismatch,
            fmt::format("rank {} waits for ever at step {} for readers of what it sent",
                        programs_.rank_of(rank), state.step - programs_.first_step[number]),
            programs_.rank_of(rank)};
  }
  return {};
}

}  // namespace weft::simulator
