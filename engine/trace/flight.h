// flight: the latest operations of a context, for whoever asks why nothing moves: the flight recorder.
//
//   FlightRing ring(FlightRing::kRecords);                 // or FlightRing(): off
//   slot.flight = ring.begin(is_timed, [](FlightRecord& record) { record.count = 1; });
//   ring.end(slot.flight, Code::ok);
//
// The recorder is always on. The holder of the lane's token is the only one to use a ring, so nothing is
// locked. Nothing is allocated after the ring was made.
//
// What costs nothing is left out. An operation of a few bytes that repeats the call before it takes 160 ns between two
// ranks; a record of it would take 5 ns, and the clock 25 ns. So such an operation has a record only once it
// has waited for microseconds, and the clock is read only for operations that wait or are large. What was left out is known
// all the same: operations are numbered, and those without a record repeat an earlier call on their channel.
//
// FlightText makes the text of a dump: a JSON object on each line (docs/live.md has the lines). So a dump
// that is cut short can be read up to where it was cut.
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

enum class FlightState : std::uint8_t { runs, done, failed };

struct alignas(64) FlightRecord {
  std::uint64_t number = 0;   // of the operation; operations of some ranks are numbered separately
  std::int64_t began_ns = 0;  // 0: it was over within microseconds, or has run only for so long
  std::int64_t ended_ns = 0;  // 0: the same, or it runs
  std::uint64_t count = 0;    // elements of the larger operand
  Rank peer = kNoRank;        // the root, or the other rank of a send, a recv or a pair_average
  std::uint16_t sources = 0, destinations = 0;  // edges
  std::uint16_t agreement = 0;                  // Call::agreement
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
  FlightState state = FlightState::runs;
  Code code = Code::ok;
  bool is_of_some_ranks = false;
};
static_assert(sizeof(FlightRecord) == 64, "a record is a cache line");

class FlightRing {
 public:
  static constexpr std::size_t kRecords = 1024;  // a power of two
  static constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};

  FlightRing() = default;  // off
  explicit FlightRing(std::size_t records) : records_(records), mask_(records - 1) {}

  // Notes an operation that has begun, and returns its place. `fill` writes the members but the times and
  // how it ended. `is_timed`: it reads the clock.
  template <typename Fill>
  std::uint64_t begin(bool is_timed, Fill&& fill) {
    if (records_.empty()) return kNoPlace;
    FlightRecord& record = records_[written_ & mask_];
    fill(record);
    record.began_ns = is_timed ? now_ns() : 0;
    record.ended_ns = 0;
    record.state = FlightState::runs;
    record.code = Code::ok;
    return written_++;
  }
  // It waits: from now on it has a time.
  void waits(std::uint64_t place) {
    if (!is_kept(place)) return;
    FlightRecord& record = records_[place & mask_];
    if (record.began_ns == 0) record.began_ns = now_ns();
  }
  void end(std::uint64_t place, Code code) {
    if (!is_kept(place)) return;
    FlightRecord& record = records_[place & mask_];
    record.state = code == Code::ok ? FlightState::done : FlightState::failed;
    record.code = code;
    if (record.began_ns != 0) record.ended_ns = now_ns();
  }

  // The record of a place; null: it was overwritten.
  [[nodiscard]] const FlightRecord* at(std::uint64_t place) const {
    return is_kept(place) ? &records_[place & mask_] : nullptr;
  }
  // The latest records, oldest first, `most` at most.
  [[nodiscard]] std::vector<FlightRecord> latest(std::size_t most) const;

 private:
  [[nodiscard]] bool is_kept(std::uint64_t place) const {
    return place < written_ && written_ - place <= records_.size();
  }

  std::vector<FlightRecord> records_;
  std::uint64_t mask_ = 0;
  std::uint64_t written_ = 0;
};

// An operation that has not ended.
struct FlightWait {
  Rank rank = kNoRank;
  std::string_view what;  // "data", "arrival", "read"
};

// What a context tells about itself.
struct FlightContext {
  std::string context;  // as in the metrics
  std::string job;      // equal on the ranks of a job
  std::string host;
  Rank rank = 0;              // in the context
  Rank rank_in_job = 0;       // the number in the job
  int size = 1;               // ranks of the context
  std::vector<Rank> members;  // their numbers in the job; empty: the same
  std::uint64_t next = 0;     // the number of the next operation of all ranks
  std::string failure;        // empty: it has not failed
};

// What a rail has carried to all peers of a context.
struct FlightRail {
  std::string rail;
  std::uint64_t bytes = 0;
  double rate = 0, best = 0;  // bytes/s: measured lately, and over a long time; 0: not measured
  int peers = 0, lost = 0;    // paths over it, and how many of them do not work now
  std::uint64_t losses = 0;   // how often one was given up
};

class FlightText {
 public:
  // `most`: of the operations of each context that have ended.
  explicit FlightText(std::size_t most = FlightRing::kRecords);

  [[nodiscard]] std::size_t most() const { return most_; }
  void context(const FlightContext& context);
  void operation(const FlightRecord& record, const std::vector<FlightWait>& waits = {});
  // One that waits for its turn, or for a peer that it shares with an earlier one.
  void queued(const FlightRecord& record);
  // One that was submitted by name and has not ended.
  void named(std::string_view name, Collective collective, std::int64_t since_ns, bool runs);
  // Who lacks which names, as far as the ranks have found out.
  void lacking(std::string_view text);
  void rail(const FlightRail& rail);
  // With the line that says that nothing is missing.
  [[nodiscard]] std::string text() &&;

 private:
  const std::size_t most_;
  std::string text_;
};

// Writes the dump to trace_path(path, rank) and replaces the file.
Status write_flight(const std::string& path, Rank rank, std::string_view text);

}  // namespace weft
