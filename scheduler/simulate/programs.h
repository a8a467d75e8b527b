// programs: the plans of all ranks, compiled for a run. Internal to the module.
//
// A compiled step has only what a run needs. Each plan is dropped as soon as it is compiled,
// because the plans of ten thousand ranks would not fit in memory. Consecutive sends become one
// burst. Every message has a number. A channel lists the messages from one rank to another, in
// order. A combine names the messages that it takes.
//
// If ranks are alike, only the first group is compiled. A message from a rank outside of the group
// stands for the message that the corresponding ranks inside of the group exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/simulate/simulate.h"

namespace weft::simulator {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

struct Message {
  std::uint64_t bytes = 0;
  std::uint32_t channel = 0;
  std::uint32_t poster = 0;  // the burst to which it belongs
  // Results of the run.
  std::uint32_t phase = 0;
  std::uint32_t taker = kNone;  // the combine that took it
  std::uint32_t link = kNone;   // the link that limited it last
  std::int32_t rail = -1;       // the first rail that carried it; -1: memory
  bool has_left = false;
  bool is_released = false;
  bool is_awaited = false;          // a combine of the receiver waits for it
  bool is_release_awaited = false;  // a combine of the sender waits for its release
  double begin_us = 0;
  double left_us = 0;
  double arrival_us = 0;
  double release_us = 0;  // from when its source may be overwritten
};

// `count` entries that begin at `first`.
struct Messages {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct Channel {
  Rank from = 0;
  Rank to = 0;              // may be outside of the simulated group
  int rail = kAnyRail;      // Plan::rails
  std::uint32_t first = 0;  // into Programs::order
  std::uint32_t count = 0;
  std::uint32_t posted = 0;
  std::uint32_t started = 0;
  std::uint32_t taken = 0;
  bool is_busy = false;
};

struct Step {
  enum class Kind : std::uint8_t { burst, combine };
  // What a combine waited for last.
  enum class Wait : std::uint8_t { own, arrival, announcement, release };
  Kind kind = Kind::burst;
  Wait wait = Wait::own;
  std::uint32_t message = kNone;  // the message that it waited for
  Messages messages{};       // burst: the messages that it posts. combine: range of Programs::takes
  Messages hazards{};        // combine: range of Programs::hazards
  std::uint32_t locals = 0;  // combine: number of local terms
  std::uint64_t bytes = 0;   // combine: size of each term
  // Results of the run.
  double begin_us = 0;
  double work_us = 0;  // combine: when there was something to work on
  double end_us = 0;
};

struct Programs {
  int lanes = 1;                             // see lanes.h: each rank here is a lane
  std::vector<std::uint32_t> first_step;     // by rank, and the end
  std::vector<std::uint32_t> first_channel;  // by rank, and the end
  std::vector<Step> steps;
  std::vector<Message> messages;
  std::vector<Channel> channels;
  std::vector<std::uint32_t> order;  // messages by channel
  std::vector<std::uint32_t> takes;  // messages
  std::vector<Messages> hazards;

  [[nodiscard]] int ranks() const { return static_cast<int>(first_step.size()) - 1; }
  // The number of a rank for people, who do not count lanes.
  [[nodiscard]] Rank rank_of(Rank lane) const { return lane / lanes; }
  [[nodiscard]] std::span<const std::uint32_t> takes_of(const Step& step) const {
    return std::span(takes).subspan(step.messages.first, step.messages.count);
  }
  [[nodiscard]] std::span<const Messages> hazards_of(const Step& step) const {
    return std::span(hazards).subspan(step.hazards.first, step.hazards.count);
  }
  [[nodiscard]] Rank sender(const Message& message) const { return channels[message.channel].from; }
  [[nodiscard]] Rank receiver(const Message& message) const {
    return channels[message.channel].to % ranks();
  }
};

// `equalized`: see Sizes. It is an error if sent and taken messages do not match, or if there are
// too many. The error names the ranks.
[[nodiscard]] Result<Programs> compile(const SimulatedJob& job, const SimulateOptions& options,
                                       int alike, bool equalized);

}  // namespace weft::simulator
