// play: what messages do, from being posted to being released.
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/simulate/play.h"

namespace weft::simulator {

void Play::wake(Rank rank) {
  if (--of(rank).missing == 0) runnable_.push_back(rank);
}

void Play::post(std::uint32_t number, std::uint32_t phase) {
  Message& message = programs_.messages[number];
  message.phase = phase;
  Channel& channel = programs_.channels[message.channel];
  ++channel.posted;
  if (!channel.is_busy) start(channel);
}

// The next of the channel's messages, if one waits: they go in order, one after another. Empty ones
// and those that stay on the machine have left as soon as they are posted.
void Play::start(Channel& channel) {
  while (!channel.is_busy && channel.started < channel.posted) {
    const std::uint32_t number = programs_.order[channel.first + channel.started++];
    Message& message = programs_.messages[number];
    message.begin_us = now_;
    if (!links_.share_memory(channel.from, channel.to) && !find_paths(channel, message)) return;
    if (message.bytes > 0 && message.rail >= 0) {
      channel.is_busy = true;
      flows_.start({number, false}, static_cast<double>(message.bytes), paths_, now_);
    } else {
      leave(number);
    }
  }
}

// Over as many rails as it has pieces: those that would deliver it first, as a bond chooses them.
bool Play::find_paths(const Channel& channel, Message& message) {
  if (channel.rail == kAnyRail || !keep_to_rail(channel))
    links_.rails_between(channel.from, channel.to, rails_);
  if (rails_.empty()) {
    status_ = {Code::unavailable,
               fmt::format("no rail between ranks {} and {}", programs_.rank_of(channel.from),
                           programs_.rank_of(channel.to)),
               programs_.rank_of(channel.from)};
    return false;
  }
  paths_.clear();
  for (const int rail : rails_) paths_.push_back(links_.path(channel.from, channel.to, rail));
  const std::uint64_t pieces =
      std::max<std::uint64_t>((message.bytes + options_.piece_bytes - 1) / options_.piece_bytes, 1);
  if (pieces < paths_.size()) {
    std::ranges::stable_sort(paths_, {}, [&](const Path& path) { return flows_.crowding(path); });
    paths_.resize(pieces);
  }
  message.rail = paths_.front().rail;
  return true;
}

// As a bond does: a rail that another one carries much more than is left to itself; false then.
bool Play::keep_to_rail(const Channel& channel) {
  constexpr double kMuchFaster = 1.5;
  links_.rails_of_machines(channel.from, channel.to, rails_);
  if (rails_.empty()) return false;
  const int rail = rails_[static_cast<std::size_t>(channel.rail) % rails_.size()];
  double most = 0;
  for (const int other : rails_) most = std::max(most, links_.bytes_per_us(channel.from, other));
  if (links_.bytes_per_us(channel.from, rail) * kMuchFaster < most) return false;
  rails_.assign(1, rail);
  return true;
}

// The last byte has left the sender.
void Play::leave(std::uint32_t number) {
  Message& message = programs_.messages[number];
  Channel& channel = programs_.channels[message.channel];
  message.has_left = true;
  ++left_;
  message.left_us = now_;
  message.arrival_us = now_ + links_.latency_us(channel.from, channel.to, message.rail);
  if (message.bytes <= options_.eager_bytes) release(number, now_);
  if (message.is_awaited) wake(programs_.receiver(message));
  if (!channel.is_busy) return;
  channel.is_busy = false;
  start(channel);
}

// Its source may be overwritten: the receiver has taken it at `time`, or it was copied at once.
void Play::release(std::uint32_t number, double time) {
  Message& message = programs_.messages[number];
  if (message.is_released) return;
  const Channel& channel = programs_.channels[message.channel];
  const bool was_copied = message.bytes <= options_.eager_bytes;
  message.is_released = true;
  message.release_us =
      time + (was_copied ? 0 : links_.latency_us(channel.from, channel.to, message.rail));
  State& sender = of(channel.from);
  if (message.release_us > sender.last_release_us) {
    sender.last_release_us = message.release_us;
    sender.last_released = number;
  }
  if (message.is_release_awaited) wake(channel.from);
}

}  // namespace weft::simulator
