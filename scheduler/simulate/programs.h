// programs: all ranks' plans, compiled for a run. Internal to the module.
//
// A plan's steps lose what a run does not need, and the plan is dropped at once: the plans of ten
// thousand ranks would not fit. Sends that follow each other become one burst. Every message has a
// number; a channel has the messages from one rank to another, in order, and takings name the
// messages that they take.
//
// With alike ranks only the first group is compiled. What its rank r takes from rank q is what r's
// like gets from q's like in that group.
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
  std::uint32_t poster = 0;  // the burst that it is of
  // Of the run.
  std::uint32_t phase = 0;
  std::uint32_t taker = kNone;  // the combine that took it
  std::uint32_t link = kNone;   // that held it up last
  std::int32_t rail = -1;       // the first that carried it; -1: memory
  bool has_left = false;
  bool is_released = false;
  bool is_awaited = false;          // by its receiver's combine
  bool is_release_awaited = false;  // by its sender's
  double begin_us = 0;
  double left_us = 0;
  double arrival_us = 0;
  double release_us = 0;  // its source may be overwritten
};

// Messages first, first + 1, …
struct Messages {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct Channel {
  Rank from = 0;
  Rank to = 0;              // with alike ranks this one may not be simulated, but its like is
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
  // What the end of a combine waited for, last of all.
  enum class Wait : std::uint8_t { own, arrival, announcement, release };
  Kind kind = Kind::burst;
  Wait wait = Wait::own;
  std::uint32_t message = kNone;  // that was waited for
  Messages messages{};            // burst: posted. combine: range of Programs::takes
  Messages hazards{};             // combine: range of Programs::hazards
  std::uint32_t locals = 0;       // combine: terms that are here
  std::uint64_t bytes = 0;        // combine: of each term
  // Of the run.
  double begin_us = 0;
  double work_us = 0;  // combine: something was there to work on
  double end_us = 0;
};

struct Programs {
  std::vector<std::uint32_t> first_step;     // by rank, and the end
  std::vector<std::uint32_t> first_channel;  // by rank, and the end
  std::vector<Step> steps;
  std::vector<Message> messages;
  std::vector<Channel> channels;
  std::vector<std::uint32_t> order;  // messages by channel
  std::vector<std::uint32_t> takes;  // messages
  std::vector<Messages> hazards;

  [[nodiscard]] int ranks() const { return static_cast<int>(first_step.size()) - 1; }
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

// `equalized`: see Sizes. Fails, naming the ranks, where messages and takings do not match or there are too many.
[[nodiscard]] Result<Programs> compile(const SimulatedJob& job, const SimulateOptions& options,
                                       int alike, bool equalized);

}  // namespace weft::simulator
