// play: runs the programs of all ranks on the links. Internal to the module.
//
// Time moves from event to event. An event is a flow that ends, or a rank that posts or begins to
// read shared memory. What no other rank can slow down (latency, combining) is computed when it
// begins, and needs no event.
#pragma once

#include <queue>
#include <vector>

#include "scheduler/simulate/flows.h"
#include "scheduler/simulate/links.h"
#include "scheduler/simulate/programs.h"

namespace weft::simulator {

class Play {
 public:
  // Keeps references to all arguments. The results of the run are stored in the programs.
  Play(const SimulatedJob& job, const SimulateOptions& options, Links& links, Programs& programs);

  // Runs to the end. An error names a rank that would wait for ever.
  [[nodiscard]] Status run();
  // When a rank's last step ended, and when its last message was released.
  [[nodiscard]] double end_us(Rank rank) const { return of(rank).clock; }
  [[nodiscard]] double last_release_us(Rank rank) const { return of(rank).last_release_us; }
  [[nodiscard]] std::uint32_t last_released(Rank rank) const { return of(rank).last_released; }

 private:
  enum class Stage : std::uint8_t { begin, waiting, ready, due, reading };
  struct State {
    Stage stage = Stage::begin;
    std::uint32_t step = 0;
    std::uint32_t missing = 0;  // messages and releases that the combine waits for
    std::uint32_t phase = 0;
    double clock = 0;  // when its last step ended, or will end
    double slowdown = 1;
    double last_release_us = 0;
    std::uint32_t last_released = kNone;
  };
  struct Alarm {
    double time;
    Rank rank;
    friend bool operator>(const Alarm& a, const Alarm& b) {
      return a.time != b.time ? a.time > b.time : a.rank > b.rank;
    }
  };
  // When a combine can begin, and when the last piece from a network has arrived.
  struct Ready {
    double begin_us = 0;
    double arrival_us = 0;
    std::uint32_t terms_from_memory = 0;
    std::uint32_t arrived = kNone;
  };

  [[nodiscard]] State& of(Rank rank) { return states_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const State& of(Rank rank) const { return states_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool wait_until(Rank rank, double time);
  void next_instant();
  void advance(Rank rank);
  bool advance_burst(Rank rank, State& state, Step& step);
  bool advance_combine(Rank rank, State& state, Step& step);
  std::uint32_t await_all(const Step& step);
  [[nodiscard]] Ready readiness(const State& state, Step& step) const;
  void finish(State& state, Step& step, const Ready& ready, double read_us);
  void post(std::uint32_t message, std::uint32_t phase);
  void start(Channel& channel);
  [[nodiscard]] bool find_paths(const Channel& channel, Message& message);
  bool keep_to_rail(const Channel& channel);
  void leave(std::uint32_t number);
  void release(std::uint32_t number, double time);
  void wake(Rank rank);
  [[nodiscard]] Status stuck() const;

  const SimulateOptions& options_;
  Links& links_;
  Programs& programs_;
  Flows flows_;
  double memory_bytes_per_us_;
  double combine_bytes_per_us_;
  double now_ = 0;
  std::vector<State> states_;
  std::vector<Rank> runnable_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  std::vector<int> rails_;  // scratch: rails of the message that starts
  std::vector<Path> paths_;
  std::size_t left_ = 0;  // messages that have left
  Status status_;
};

}  // namespace weft::simulator
