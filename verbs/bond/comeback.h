// Comeback: a path that was given up is connected again after a while, and a probe is sent over it.
// The path takes pieces again when two answers have come: the echo of the probe, and the peer's
// count of what it took before. Each connection is another *generation* of the path, so that a late
// note about an earlier one changes nothing.
//
// A path that is slow or silent again soon after its return waits twice as long the next time, at
// most 64 * return_ms. If it has held for that long, the earlier waits are forgotten. An end that
// finds a path connected anew by its peer does not wait. path.h has the states.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstdint>

#include "verbs/bond/notes.h"

namespace weft::bond {

class Comeback {
 public:
  explicit Comeback(BondEndpoint& endpoint) : endpoint_(endpoint) {}

  // Connects a path again that is not live: when it is due, or as soon as the peer has done so.
  void look(Path& path, std::int64_t now);
  // Whether the peer has connected the path again: its interface then has a newer endpoint.
  [[nodiscard]] bool is_sought(const Path& path) const;
  // Whether nothing of the path's connection is needed any more: all notices that came over it were
  // taken, and the caller knows how all one-sided work on it ended.
  [[nodiscard]] bool is_drained(const Path& path) const;
  // The path goes on over this endpoint, once it is proven.
  void begin_anew(Path& path, Endpoint& endpoint);
  // How long a path that is given up waits before the first try. `judged`: it was slow or silent.
  [[nodiscard]] std::int64_t wait_before(const Path& path, bool judged, std::int64_t now) const;
  // The peer does not try the path for so long.
  void wait_as_told(Path& path, std::int64_t wait_ns) const;

  // The echo has come over a path that returns.
  void hear_of_proof(Path& path);
  // A note about a later generation has come: the peer has tried more often than we have, so its
  // generation is higher; the connection is the same.
  void hear_of_future(const Path& from, Path& path, const PathNote& note);
  // The path is proven, and the peer's count is known: it is live again.
  void come_back(Path& path);

 private:
  [[nodiscard]] std::int64_t longest_wait_ns() const;

  BondEndpoint& endpoint_;
};

}  // namespace weft::bond
