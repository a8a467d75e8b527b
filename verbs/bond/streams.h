// Streams: the numbered notices of all channels. Every notice of a channel has a number
// (WireHeader::stamp). It is posted on one path, and taken in the order of the numbers from
// whichever path has the next one. What a path that was given up did not deliver is posted again on
// other paths; the sources stay untouched until the peer has released the notice.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Invariants: check(). Internal to the
// module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "verbs/bond/path.h"

namespace weft::bond {

class BondEndpoint;

class Streams {
 public:
  Streams(BondEndpoint& endpoint, std::uint32_t channels, std::uint32_t slots);

  // As in notices.h.
  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how);
  [[nodiscard]] Notice front(std::uint32_t channel);
  void release(std::uint32_t channel);
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel);
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const {
    return channels_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel);

  // Subtracts notices that have completed locally from the backlogs of their paths.
  void count_completions(std::int64_t now);
  // Whether the peer has to take something yet that was posted on the path.
  [[nodiscard]] bool owes(const Path& path) const;

  // The note at the front of a path's control channel. A notice of the stream that stands before it
  // and whose turn has not come is kept aside: the notice before it may be lost, and the fence that
  // brings that one again would wait behind this one.
  [[nodiscard]] Notice next_note(Path& path);
  void release_note(Path& path);

  // A path is given up by the peer: the notices that have arrived completely over it will be taken
  // in their turn. What the path delivers from now on will not be taken.
  void fence(const Path& path);
  // How many notices of each channel were taken from a path in one of its generations.
  [[nodiscard]] std::vector<std::uint64_t> taken_in(const Path& path,
                                                    std::uint16_t generation) const;
  // The peer has said how many notices of each channel it took from a path. What is not in the
  // count is missing: post_missing() posts it again. False: these are not counts.
  [[nodiscard]] bool resolve(const Path& path, std::span<const std::byte> counts);
  void post_missing();
  [[nodiscard]] bool misses() const { return missing_ != 0; }
  // Keeps aside all notices that have come over a path whose connection ends, except the one that
  // the caller is looking at.
  void keep_aside(Path& path);
  // Whether all notices that came over the path were taken. After a path was abandoned nothing more
  // comes.
  [[nodiscard]] bool is_drained(const Path& path) const;
  // The path has a new connection. How many notices were taken from the old one is kept for a peer
  // that still asks; what the peer had posted beyond that, it posts again on another path.
  void begin_anew(Path& path);

  // Aborts if the figures about the path and the notices on it contradict each other.
  void check() const;

 private:
  static constexpr std::uint64_t kUnbound = ~std::uint64_t{0};

  // A notice that the peer has not released.
  struct Sent {
    WireHeader header;
    std::span<const std::byte> payload;
    std::vector<std::byte> copy;  // of a payload that was copied
    std::uint64_t path_number;    // posted() of its path just after it was posted there
    Path* path;
    Payload how;
    bool taken;              // the fence of its path says that the peer took it: counts as released
    bool missing;            // that fence says that the peer did not: to be posted again
    bool locally_completed;  // its path's Flow no longer counts it as under way
  };
  // A notice that came before its turn, kept after a fence.
  struct Kept {
    WireHeader header;
    std::vector<std::byte> payload;
  };
  // A channel on one path.
  struct OnPath {
    std::uint64_t taken = 0;  // notices that were taken from it
    // How many may be: all, or, after a fence, those that had come by then.
    std::uint64_t bound = kUnbound;
    std::uint64_t before = 0;             // how many were taken in Generations::before
    std::uint64_t locally_completed = 0;  // as the path said at the last count_completions()
  };
  struct Channel {
    std::vector<Sent> sent;  // ring, by number
    std::uint64_t posted = 0;
    std::uint64_t released = 0;
    std::uint64_t next = 0;              // the number that front() shows next
    std::map<std::uint32_t, Kept> kept;  // by stamp
    bool shown = false;                  // front() has returned that number from its path
    std::vector<OnPath> on;              // by number of the path

    [[nodiscard]] Sent& at(std::uint64_t number) { return sent[number % sent.size()]; }
    [[nodiscard]] const Sent& at(std::uint64_t number) const { return sent[number % sent.size()]; }
  };

  void count_completions(std::uint32_t channel, std::int64_t now);
  static void count_completed(Sent& sent, std::int64_t now);
  Posted post_on(Path& path, std::uint32_t channel, Sent& sent);
  // The next notice that may be taken from a path.
  [[nodiscard]] Notice front_on(std::uint32_t channel, const Path& path) const;
  void release_on(std::uint32_t channel, Path& path);
  bool keep_early(std::uint32_t channel, Path& path);
  bool keep(std::uint32_t channel, Path& path, const Notice& notice);
  // Whether no more is taken from the path than had come when the peer gave it up.
  [[nodiscard]] bool is_fenced(const Path& path) const {
    return channels_.front().on[path.number].bound != kUnbound;
  }

  BondEndpoint& endpoint_;
  std::vector<Path>& paths_;
  std::vector<Channel> channels_;
  std::size_t missing_ = 0;
  bool recovered_ = false;  // a path was fenced once: numbers may come out of order on one path
};

}  // namespace weft::bond
