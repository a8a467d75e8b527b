// paths: what only a bond and the engine above it know of, as several interfaces lead to one peer.
// An endpoint over a single path keeps the defaults, and a transport that cannot connect again does.
//
// Failure of a path (a cable, an interface, the peer's end): Endpoint::failure() says why, and
// nothing more moves on that endpoint. It never blocks: posting a notice answers full, one-sided
// work completes with the failure, and notices that had arrived whole stay readable. reconnect()
// makes an endpoint in its place.
//
// Threads and lifetime: transport.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

class Endpoint;

// What a path has carried so far, for people and for metrics.
struct PathReport {
  std::string rail;         // the interface's name
  std::uint64_t bytes = 0;  // large pieces that have left
  double rate = 0;          // bytes/s as measured lately; 0: not measured
  double best = 0;          // what it has carried for long
  bool lives = true;
  std::uint32_t losses = 0;  // how often it was given up
};

// From when on a rail is preferred. `start`: where a plan divides edges among rails, so that none has two
// at once. `measured`: once all rails have been measured, where nothing but their rates speaks for it.
enum class PreferFrom : std::uint8_t { start, measured };

// The third part of an endpoint: which of the paths to the peer carries what. Only a bond's endpoint
// has a choice.
class PathChoice {
 public:
  // Pieces of a channel should take the rail of this number, modulo how many lead to the peer,
  // until told otherwise; rails are numbered by their names, so ranks count alike. A hint, which a
  // rail that fails or falls behind the others ends. kAnyRail: whichever is free.
  virtual void prefer_rail(std::uint32_t /*channel*/, int /*rail*/, PreferFrom) {}
  // Where nothing else was asked for, the notices take what leads from these members of ours to
  // those of the peer's, each numbered in the order of opening, as long as all of it carries well;
  // else, or where nothing does, all that leads there. A hint.
  virtual void use_members(std::span<const int> /*ours*/, std::span<const int> /*theirs*/) {}
  // The endpoint over which one-sided work reaches the peer's interface of this number, in the
  // order in which the peer opened its networks; nullptr if no path to that interface works now.
  // For what belongs to one interface, as a lock word does. It may be another endpoint after each
  // turn. Its completions come out of the poll() of the interface that connected this endpoint.
  [[nodiscard]] virtual Endpoint* over(int member) = 0;
  // One for each path; none where there is no choice.
  [[nodiscard]] virtual std::vector<PathReport> path_reports() const { return {}; }

 protected:
  PathChoice() = default;
  ~PathChoice() = default;
};

// The part of an interface by which a bond makes paths over it that come back.
class Reconnection {
 public:
  // ok, or why nothing gets through here now: no carrier, the device is gone. A look, not a wait.
  [[nodiscard]] virtual Status link() const { return {}; }
  // The endpoint to that address if it works and something waits on its control channel, also of a
  // peer that we never connected to; else nullptr. Connects nothing.
  [[nodiscard]] virtual Endpoint* heard_from(Rank, std::string_view) { return nullptr; }
  // A new endpoint in place of one that failed, whose arrivals are given up. The peer's end is
  // made anew, too, when it hears of this. `unavailable` where the transport has no such thing
  // (Interface::reconnects()).
  virtual Result<Endpoint*> reconnect(Rank peer, std::string_view address);
  // The caller uses a failed endpoint no more; what is left of it may go, at the peer too where
  // nobody has taken its end. Its one-sided work is still told by poll().
  virtual void forget(Endpoint&) {}

 protected:
  Reconnection() = default;
  ~Reconnection() = default;
};

}  // namespace weft
