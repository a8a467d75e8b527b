// operation: its moves from phase to phase.
#include "engine/operation/operation.h"

#include <array>

namespace weft {
namespace {

using Phase = Operation::Phase;
using Row = std::array<bool, 5>;

// By the phase before: to bound, queued, running, output, done. What is called for no lane, and what
// ends before it ran, leaves phases out.
constexpr std::array<Row, 5> kMoves{{
    {false, true, true, true, true},     // bound
    {false, false, true, true, true},    // queued
    {false, false, false, true, true},   // running
    {false, false, false, false, true},  // output
    {true, false, false, false, false},  // done
}};

}  // namespace

void BoundCall::clear() {
  plan = nullptr;
  trace_name = 0;
  call = {};
  in.clear();
  out.clear();
  receive_weights.clear();
  send_weights.clear();
  given.clear();
  given_input.clear();
  own_plan.reset();
}

void Operation::enter(Phase next) {
  invariant(kMoves[static_cast<std::size_t>(phase_)][static_cast<std::size_t>(next)],
            "an operation goes on, never back");
  phase_ = next;
}

void Operation::begin_anew() {
  if (phase_ != Phase::bound) enter(Phase::bound);
  bound_call.clear();
  status = {};
  done.store(false, std::memory_order_relaxed);
}

}  // namespace weft
