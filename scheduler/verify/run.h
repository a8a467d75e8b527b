// verify_run: runs all plans on symbols, as plan.h says programs run. Internal to the verifier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/verify/layout.h"
#include "scheduler/verify/values.h"
#include "scheduler/verify/verify.h"
#include "scheduler/verify/wires.h"

namespace weft::verifier {

// The ranks that may be able to take a step. next() hands them out in the given order. A rank is in
// it at most once.
class Ready {
 public:
  Ready(std::size_t ranks, Order order, std::uint64_t seed);
  void add(std::size_t rank);
  [[nodiscard]] bool empty() const { return first_ == ranks_.size(); }
  [[nodiscard]] std::size_t next();

 private:
  Order order_;
  std::uint64_t draws_;
  std::vector<std::size_t> ranks_;  // from first_ on
  std::size_t first_ = 0;
  std::vector<bool> is_in_;
};

// One run of all plans. A receiver reads a message in place, in the sender's memory, when its
// combine runs. Keeps references to all arguments.
class Run {
 public:
  Run(std::span<const Planned> programs, const Wires& wires, std::span<const Layout> layouts,
      const Expectation& expectation);

  // Runs all programs to their ends. An error says which rank waits for which, or whose messages do
  // not match.
  [[nodiscard]] Status run();
  [[nodiscard]] const Value& at(std::size_t rank, std::size_t element) const {
    return ranks_[rank].memory[element];
  }
  // Barriers only: true if `rank` certainly ends after `other` has begun.
  [[nodiscard]] bool heard_of(std::size_t rank, std::size_t other) const {
    return ranks_[rank].heard[other];
  }

 private:
  struct Channel {                     // one edge, kept at its receiver
    std::vector<std::uint32_t> sends;  // the sender's steps, in order
    std::size_t taken = 0;
    bool has_come = false;  // the receiver is at the combine that takes the first message
  };
  struct State {
    std::uint32_t step = 0;
    std::uint32_t met = 0;               // how many of the step's hazards and operands are ready
    std::vector<Channel> in;             // by in-edge
    std::vector<std::uint32_t> readers;  // by step: messages of a send that are not taken yet
    // For a plan's only send, to several ranks: how many of these are not yet at the combine that
    // takes it.
    std::uint32_t absent = 0;
    std::vector<Value> memory;
    std::vector<bool> heard;                  // barrier: ranks known to have begun
    std::vector<std::vector<bool>> heard_at;  // barrier, by step: the `heard` that a send carries
  };

  struct Wait {
    Rank peer = kNoRank;
    std::string what;
  };

  [[nodiscard]] bool has_ended(std::size_t rank) const;
  [[nodiscard]] bool can_start(std::size_t rank);
  [[nodiscard]] bool is_met(std::size_t rank, const Step& step, std::uint32_t need) const;
  [[nodiscard]] Status take_step(std::size_t rank);
  void come(std::size_t rank);
  void send(std::size_t rank, const Step& step);
  [[nodiscard]] Status combine(std::size_t rank, const Step& step);
  [[nodiscard]] Result<const Value*> read(std::size_t rank, const Operand& operand,
                                          std::size_t count) const;
  void consume(std::size_t rank, std::uint32_t edge);
  [[nodiscard]] Channel& channel_of(std::size_t rank, std::uint32_t out_edge);
  [[nodiscard]] const Channel& channel_of(std::size_t rank, std::uint32_t out_edge) const;
  [[nodiscard]] Status deadlock();
  [[nodiscard]] Wait wait_of(std::size_t rank) const;
  [[nodiscard]] Rank absent_reader(std::size_t sender) const;
  [[nodiscard]] Status leftover() const;

  std::span<const Planned> programs_;
  const Wires& wires_;
  std::span<const Layout> layouts_;
  bool is_barrier_;
  bool is_eager_;
  Symbols symbols_;
  Ready ready_;
  std::vector<State> ranks_;
};

}  // namespace weft::verifier
