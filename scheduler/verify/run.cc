// verify_run: the run itself. A rank that cannot go on leaves the ready list; whatever could let it
// go on (a message posted to it, a message of its taken) puts it back.
#include "scheduler/verify/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/verify/local.h"

namespace weft::verifier {
namespace {

constexpr std::size_t index(Rank rank) {
  return static_cast<std::size_t>(rank);
}

// How many ranks take a plan's message through one ring: those of its only send, if they are
// several.
std::uint32_t sharers_of_ring(const Plan& plan) {
  const auto is_send = [](const Step& step) { return step.kind == Step::Kind::send; };
  if (std::ranges::count_if(plan.steps, is_send) != 1) return 0;
  const std::uint32_t readers = std::ranges::find_if(plan.steps, is_send)->count;
  return readers > 1 ? readers : 0;
}

}  // namespace

Ready::Ready(std::size_t ranks, Order order, std::uint64_t seed)
    : order_(order), draws_(seed), is_in_(ranks, false) {}

void Ready::add(std::size_t rank) {
  if (is_in_[rank]) return;
  is_in_[rank] = true;
  ranks_.push_back(rank);
}

std::size_t Ready::next() {
  if (order_ == Order::round_robin) {
    const std::size_t rank = ranks_[first_++];
    // The consumed front is dropped when it is half of the list: constant cost per call on average.
    if (first_ * 2 > ranks_.size()) {
      ranks_.erase(ranks_.begin(), ranks_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    is_in_[rank] = false;
    return rank;
  }
  if (order_ == Order::random) {
    draws_ = mix(draws_, ranks_.size());
    std::swap(ranks_[draws_ % ranks_.size()], ranks_.back());
  }
  const std::size_t rank = ranks_.back();
  ranks_.pop_back();
  is_in_[rank] = false;
  return rank;
}

Run::Run(std::span<const Planned> programs, const Wires& wires, std::span<const Layout> layouts,
         const Expectation& expectation)
    : programs_(programs),
      wires_(wires),
      layouts_(layouts),
      is_barrier_(expectation.operation == Collective::barrier),
      is_eager_(expectation.order == Order::eager),
      symbols_(expectation.seed, expectation.machine, expectation.input),
      ready_(programs.size(), expectation.order, expectation.seed),
      ranks_(programs.size()) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    State& state = ranks_[rank];
    const auto& [view, plan] = programs_[rank];
    state.in.resize(view.in.size());
    state.readers.assign(plan.steps.size(), 0);
    state.absent = is_barrier_ ? 0 : sharers_of_ring(plan);
    state.memory.resize(layouts_[rank].elements());
    const Extent input = layouts_[rank].whole(Buffer::input);
    for (std::size_t i = 0; i < input.count(); ++i) {
      state.memory[input.first + i] = symbols_.input_value(view.rank, i);
    }
    if (is_barrier_) {
      state.heard.assign(ranks_.size(), false);
      state.heard[rank] = true;
      state.heard_at.resize(plan.steps.size());
    }
    ready_.add(rank);
  }
}

Status Run::run() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) come(rank);
  while (!ready_.empty()) {
    const std::size_t rank = ready_.next();
    while (!has_ended(rank) && can_start(rank)) {
      WEFT_RETURN_IF_ERROR(take_step(rank));
      if (is_eager_) continue;
      ready_.add(rank);
      break;
    }
  }
  WEFT_RETURN_IF_ERROR(deadlock());
  return leftover();
}

bool Run::has_ended(std::size_t rank) const {
  return ranks_[rank].step == programs_[rank].plan.steps.size();
}

// A combine needs its hazards, then its operands. What is met stays met, so a later look goes on
// from there.
bool Run::can_start(std::size_t rank) {
  State& state = ranks_[rank];
  const Step& step = programs_[rank].plan.steps[state.step];
  if (step.kind == Step::Kind::send) return true;
  const std::uint32_t needs = step.hazard_count + step.count;
  while (state.met < needs && is_met(rank, step, state.met)) ++state.met;
  return state.met == needs;
}

bool Run::is_met(std::size_t rank, const Step& step, std::uint32_t need) const {
  const Plan& plan = programs_[rank].plan;
  const State& state = ranks_[rank];
  if (need < step.hazard_count) return state.readers[plan.hazards[step.hazard_first + need]] == 0;
  const Operand& operand = plan.operands[step.first + need - step.hazard_count];
  if (operand.kind == Operand::Kind::local) return true;
  const Channel& channel = state.in[operand.edge];
  return channel.taken < channel.sends.size() &&
         ranks_[index(programs_[rank].view.in[operand.edge])].absent == 0;
}

Status Run::take_step(std::size_t rank) {
  const Step& step = programs_[rank].plan.steps[ranks_[rank].step];
  if (step.kind == Step::Kind::send) {
    send(rank, step);
  } else {
    WEFT_RETURN_IF_ERROR(combine(rank, step));
  }
  ranks_[rank].met = 0;
  ++ranks_[rank].step;
  come(rank);
  return {};
}

// The rank is at a step: who sends what it takes there may go on, if it is the last of the readers.
void Run::come(std::size_t rank) {
  const auto& [view, plan] = programs_[rank];
  if (has_ended(rank) || plan.steps[ranks_[rank].step].kind == Step::Kind::send) return;
  const Step& step = plan.steps[ranks_[rank].step];
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const Operand& operand = plan.operands[step.first + i];
    if (operand.kind != Operand::Kind::message) continue;
    if (std::exchange(ranks_[rank].in[operand.edge].has_come, true)) continue;
    State& sender = ranks_[index(view.in[operand.edge])];
    if (sender.absent == 0 || --sender.absent != 0) continue;
    for (const Rank reader : programs_[index(view.in[operand.edge])].view.out)
      ready_.add(index(reader));
  }
}

const Run::Channel& Run::channel_of(std::size_t rank, std::uint32_t out_edge) const {
  const Rank peer = programs_[rank].view.out[out_edge];
  return ranks_[index(peer)].in[wires_[rank][out_edge]];
}

Run::Channel& Run::channel_of(std::size_t rank, std::uint32_t out_edge) {
  return const_cast<Channel&>(std::as_const(*this).channel_of(rank, out_edge));
}

void Run::send(std::size_t rank, const Step& step) {
  State& state = ranks_[rank];
  const auto& [view, plan] = programs_[rank];
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const std::uint32_t edge = plan.edges[step.first + i];
    channel_of(rank, edge).sends.push_back(state.step);
    ready_.add(index(view.out[edge]));
  }
  state.readers[state.step] = step.count;
  if (is_barrier_) state.heard_at[state.step] = state.heard;
}

// Where an operand's elements are: in our memory or, for a message, in its sender's.
Result<const Value*> Run::read(std::size_t rank, const Operand& operand, std::size_t count) const {
  const State& state = ranks_[rank];
  if (operand.kind == Operand::Kind::local) {
    return state.memory.data() + layouts_[rank].extent(operand.slice).first;
  }
  const Channel& channel = state.in[operand.edge];
  const Rank sender = programs_[rank].view.in[operand.edge];
  const std::uint32_t sent_at = channel.sends[channel.taken];
  const Extent source =
      layouts_[index(sender)].extent(programs_[index(sender)].plan.steps[sent_at].slice);
  if (source.count() != count) {
    return fault(Code::mismatch, programs_[rank].view.rank, state.step,
                 fmt::format("it takes {} elements from rank {}, whose step {} sends {}", count,
                             sender, sent_at, source.count()));
  }
  const Combining taken = programs_[rank].plan.steps[state.step].combining;
  if (taken != programs_[index(sender)].plan.steps[sent_at].combining) {
    return fault(
        Code::mismatch, programs_[rank].view.rank, state.step,
        fmt::format("it takes a message of rank {} otherwise than that rank's step {} says", sender,
                    sent_at));
  }
  return ranks_[index(sender)].memory.data() + source.first;
}

Status Run::combine(std::size_t rank, const Step& step) {
  const auto& [view, plan] = programs_[rank];
  const std::span<const Operand> operands(plan.operands.data() + step.first, step.count);
  const Extent destination = layouts_[rank].extent(step.slice);
  std::vector<Term> terms(destination.count(), Term(step.combining));
  for (const Operand& operand : operands) {
    WEFT_ASSIGN(const Value* const values, read(rank, operand, destination.count()));
    const Field factor = symbols_.weight(view, operand.weight);
    for (std::size_t i = 0; i < terms.size(); ++i) terms[i].take(values[i], operand.weight, factor);
  }
  if (step.is_whole) {
    for (Term& term : terms) term.complete(symbols_.completion(view.rank, view.size));
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    ranks_[rank].memory[destination.first + i] = terms[i].value();
  }
  for (const Operand& operand : operands) {
    if (operand.kind == Operand::Kind::message) consume(rank, operand.edge);
  }
  return {};
}

void Run::consume(std::size_t rank, std::uint32_t edge) {
  State& state = ranks_[rank];
  Channel& channel = state.in[edge];
  const std::size_t sender = index(programs_[rank].view.in[edge]);
  const std::uint32_t sent_at = channel.sends[channel.taken++];
  if (is_barrier_) {
    const std::vector<bool>& told = ranks_[sender].heard_at[sent_at];
    for (std::size_t i = 0; i < told.size(); ++i) {
      if (told[i]) state.heard[i] = true;
    }
  }
  if (--ranks_[sender].readers[sent_at] == 0) ready_.add(sender);
}

// Of a lone send.
Rank Run::absent_reader(std::size_t sender) const {
  const auto& [view, plan] = programs_[sender];
  for (std::uint32_t edge = 0; edge < view.out.size(); ++edge) {
    if (!channel_of(sender, edge).has_come) return view.out[edge];
  }
  invariant(false, "a message that waits for a reader has one that did not come");
  return kNoRank;
}

// What a rank that stands still waits for.
Run::Wait Run::wait_of(std::size_t rank) const {
  const State& state = ranks_[rank];
  const auto& [view, plan] = programs_[rank];
  const Step& step = plan.steps[state.step];
  if (state.met >= step.hazard_count) {
    const std::uint32_t edge = plan.operands[step.first + state.met - step.hazard_count].edge;
    const Rank sender = view.in[edge];
    if (state.in[edge].taken == state.in[edge].sends.size())
      return {sender, fmt::format("waits for a message from rank {}", sender)};
    const Rank reader = absent_reader(index(sender));
    return {reader, fmt::format("waits until rank {} takes rank {}'s message too", reader, sender)};
  }
  const std::uint32_t hazard = plan.hazards[step.hazard_first + state.met];
  const Step& sent = plan.steps[hazard];
  for (std::uint32_t i = 0; i < sent.count; ++i) {
    const std::uint32_t edge = plan.edges[sent.first + i];
    const Channel& channel = channel_of(rank, edge);
    const auto untaken = channel.sends.begin() + static_cast<std::ptrdiff_t>(channel.taken);
    if (std::find(untaken, channel.sends.end(), hazard) != channel.sends.end()) {
      const Rank reader = view.out[edge];
      return {reader, fmt::format("waits until rank {} has read step {}", reader, hazard)};
    }
  }
  invariant(false, "a send that is not done has a reader");
  return {};
}

// Nobody can go on: if somebody has not ended, tells the chain of waits from the first such rank.
Status Run::deadlock() {
  std::size_t first = 0;
  while (first < ranks_.size() && has_ended(first)) ++first;
  if (first == ranks_.size()) return {};

  constexpr int kLongestChain = 8;
  std::string chain;
  std::vector<bool> is_named(ranks_.size(), false);
  std::size_t rank = first;
  for (int link = 0; link < kLongestChain && !is_named[rank] && !has_ended(rank); ++link) {
    is_named[rank] = true;
    const Wait wait = wait_of(rank);
    chain += fmt::format("rank {} step {} {}; ", rank, ranks_[rank].step, wait.what);
    rank = index(wait.peer);
  }
  chain += has_ended(rank)  ? fmt::format("rank {} has ended", rank)
           : is_named[rank] ? fmt::format("and so around to rank {}", rank)
                            : "and so on";
  return {Code::invalid_argument, "deadlock: " + chain, static_cast<Rank>(first)};
}

Status Run::leftover() const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (std::size_t edge = 0; edge < ranks_[rank].in.size(); ++edge) {
      const Channel& channel = ranks_[rank].in[edge];
      if (channel.taken == channel.sends.size()) continue;
      return fault(Code::mismatch, programs_[rank].view.in[edge], channel.sends[channel.taken],
                   fmt::format("its message to rank {} is never taken", rank));
    }
  }
  return {};
}

}  // namespace weft::verifier
