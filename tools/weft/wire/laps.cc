// The timed loops. They do what the engine does with an interface: post, take a turn, look, and
// wait by its rule, so that who has nothing to do leaves the core to whoever moves the bytes.
#include "tools/weft/wire/laps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace weft {
namespace {

// What a peer writes into our memory wakes nobody.
constexpr std::int64_t kNapNs = 1'000'000;

template <class Predicate>
Status turn_until(WireSide& side, Predicate done, std::int64_t longest_sleep_ns) {
  return turn_until(side.interface(), side.peer(), side.patience(), longest_sleep_ns, done);
}

template <class Predicate>
Status turn_until(WireSide& side, Predicate done) {
  return turn_until(side, done, side.patience().policy.sleep_ns);
}

std::size_t piece_of(WireSide& side, const WireTask& task) {
  return std::min<std::size_t>(task.bytes, side.interface().piece_bytes());
}

// Pieces of a notice's message; one-sided work is whole.
std::size_t pieces_of(WireSide& side, const WireTask& task) {
  if (task.op != WireOp::notice) return 1;
  const std::size_t piece = piece_of(side, task);
  return (task.bytes + piece - 1) / piece;
}

std::span<const std::byte> piece_at(WireSide& side, const WireTask& task, std::size_t number) {
  const std::size_t piece = piece_of(side, task);
  const std::size_t at = number % pieces_of(side, task) * piece;
  return {side.source() + at, std::min<std::size_t>(piece, task.bytes - at)};
}

// Many operations under way. Units are operations, or the pieces of notices.
class WireStream {
 public:
  WireStream(WireSide& side, const WireTask& task)
      : side_(side),
        task_(task),
        pieces_(pieces_of(side, task)),
        units_(std::uint64_t{task.iterations} * pieces_),
        already_(side.peer().released(kWireChannel)),
        begun_(task.iterations),
        ended_(task.iterations) {}

  Status run() {
    while (done_ < units_ && status_.ok()) {
      while (post_list()) side_.interface().progress();  // a doorbell per list
      const std::uint64_t before = done_;
      WEFT_RETURN_IF_ERROR(turn_until(side_, [&] {
        task_.op == WireOp::notice ? collect_releases() : collect();
        return done_ != before;
      }));
    }
    return status_;
  }

  [[nodiscard]] WireLap lap() const {
    WireLap lap;
    lap.seconds = static_cast<double>(ended_.back() - begun_.front()) / 1e9;
    for (std::size_t i = 0; i < begun_.size(); ++i)
      lap.us.push_back(static_cast<double>(ended_[i] - begun_[i]) / 1e3);
    const std::size_t run = std::min<std::size_t>(task_.depth, begun_.size());
    std::int64_t best = ended_.back() - begun_.front();
    std::size_t length = begun_.size();
    for (std::size_t i = 0; i + run <= begun_.size(); ++i) {
      const std::int64_t taken = ended_[i + run - 1] - begun_[i];
      if (taken * static_cast<std::int64_t>(length) < best * static_cast<std::int64_t>(run)) {
        best = taken;
        length = run;
      }
    }
    lap.peak_seconds = static_cast<double>(best) / 1e9 / static_cast<double>(length);
    return lap;
  }

 private:
  // A whole list or nothing, except for the last: that is what a doorbell is saved for.
  bool post_list() {
    const std::uint64_t more = std::min<std::uint64_t>(task_.list, units_ - posted_);
    if (more == 0 || posted_ - done_ + more > task_.depth) return false;
    const std::int64_t now = now_ns();
    for (std::uint64_t i = 0; i < more; ++i) {
      if (post() == Posted::full) return false;
      if (posted_ % pieces_ == 0) begun_[posted_ / pieces_] = now;
      ++posted_;
    }
    return true;
  }

  Posted post() {
    Endpoint& peer = side_.peer();
    const std::span<std::byte> local(side_.source(), task_.bytes);
    switch (task_.op) {
      case WireOp::write:
        return peer.post_write(local, side_.remote(task_.bytes), posted_);
      case WireOp::read:
        return peer.post_read(local, side_.remote(task_.bytes), posted_);
      case WireOp::atomic:
        return peer.post_compare_swap(side_.remote(task_.bytes), 0, 0, &found_, posted_);
      case WireOp::notice:
        break;
    }
    return peer.post_piece(kWireChannel, WireHeader{}, piece_at(side_, task_, posted_));
  }

  void collect() {
    const std::size_t count = side_.interface().poll(completions_);
    if (count == 0) return;
    const std::int64_t now = now_ns();
    for (std::size_t i = 0; i < count; ++i) {
      if (status_.ok()) status_ = std::move(completions_[i].status);
      ended_[done_++] = now;
    }
  }

  void collect_releases() {
    const std::uint64_t released = side_.peer().released(kWireChannel) - already_;
    if (released == done_) return;
    const std::int64_t now = now_ns();
    for (; done_ < released; ++done_) ended_[done_ / pieces_] = now;
  }

  WireSide& side_;
  const WireTask& task_;
  std::size_t pieces_;
  std::uint64_t units_;
  std::uint64_t already_;  // released in earlier laps
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t found_ = 0;
  Status status_;  // of the first that did not end well
  std::array<Completion, 64> completions_;
  std::vector<std::int64_t> begun_;
  std::vector<std::int64_t> ended_;
};

Status send_message(WireSide& side, const WireTask& task) {
  for (std::size_t i = 0; i < pieces_of(side, task); ++i) {
    const std::span<const std::byte> piece = piece_at(side, task, i);
    WEFT_RETURN_IF_ERROR(turn_until(side, [&] {
      return side.peer().post_piece(kWireChannel, WireHeader{}, piece) == Posted::posted;
    }));
  }
  return {};
}

Status take_messages(WireSide& side, std::uint64_t pieces) {
  for (std::uint64_t i = 0; i < pieces; ++i) {
    WEFT_RETURN_IF_ERROR(
        turn_until(side, [&] { return side.peer().front(kWireChannel).header != nullptr; }));
    side.peer().release(kWireChannel);
  }
  return {};
}

// Writes the turn's number and waits until it has left: the next one uses the same memory.
Status write_turn(WireSide& side, const WireTask& task) {
  side.source()[task.bytes - 1] = std::byte{side.turn()};
  const std::span<const std::byte> local(side.source(), task.bytes);
  if (side.peer().post_write(local, side.remote(task.bytes), 0) == Posted::full)
    return Status(Code::exhausted, "no place for a single write");
  side.interface().progress();  // it leaves
  Completion completion;
  WEFT_RETURN_IF_ERROR(turn_until(side, [&] {
    return side.interface().poll({&completion, 1}) == 1;
  }));
  return completion.status;
}

Status await_turn(WireSide& side, const WireTask& task, std::uint8_t turn) {
  auto* last = reinterpret_cast<std::uint8_t*>(side.target() + task.bytes - 1);
  const auto came = [&] {
    return std::atomic_ref<std::uint8_t>(*last).load(std::memory_order_acquire) == turn;
  };
  return turn_until(side, came, kNapNs);
}

// One round trip, as either side sees it.
Status ping_pong(WireSide& side, const WireTask& task) {
  const bool first = side.self() == 0;
  if (task.op == WireOp::notice) {
    if (first) WEFT_RETURN_IF_ERROR(send_message(side, task));
    WEFT_RETURN_IF_ERROR(take_messages(side, pieces_of(side, task)));
    return first ? Status{} : send_message(side, task);
  }
  const std::uint8_t turn = ++side.turn();
  if (first) WEFT_RETURN_IF_ERROR(write_turn(side, task));
  WEFT_RETURN_IF_ERROR(await_turn(side, task, turn));
  return first ? Status{} : write_turn(side, task);
}

}  // namespace

void prepare_lap(WireSide& side, const WireTask& task) {
  if (task.ping_pong && task.op == WireOp::write)
    side.target()[task.bytes - 1] = std::byte{side.turn()};
}

Result<WireLap> lead_lap(WireSide& side, const WireTask& task) {
  if (!task.ping_pong) {
    WireStream stream(side, task);
    WEFT_RETURN_IF_ERROR(stream.run());
    return stream.lap();
  }
  WireLap lap;
  lap.us.reserve(task.iterations);
  const std::int64_t start = now_ns();
  for (std::int64_t i = 0, before = start; i < task.iterations; ++i) {
    WEFT_RETURN_IF_ERROR(ping_pong(side, task));
    const std::int64_t now = now_ns();
    lap.us.push_back(static_cast<double>(now - before) / 2e3);
    before = now;
  }
  lap.seconds = static_cast<double>(now_ns() - start) / 2e9;
  lap.peak_seconds = *std::ranges::min_element(lap.us) / 1e6;
  return lap;
}

Status follow_lap(WireSide& side, const WireTask& task, std::int64_t lap_ms) {
  if (task.ping_pong) {
    for (std::uint32_t i = 0; i < task.iterations; ++i) WEFT_RETURN_IF_ERROR(ping_pong(side, task));
  } else if (task.op == WireOp::notice) {
    WEFT_RETURN_IF_ERROR(take_messages(side, task.iterations * pieces_of(side, task)));
  }
  WEFT_ASSIGN(const bool done, side.hear<bool>("the end of a lap", lap_ms));
  return done ? Status{} : Status(Code::mismatch, "the lap did not end");
}

}  // namespace weft
