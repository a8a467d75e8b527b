// Notes: what two bonds tell each other about their paths. A note travels as a notice of kind `path`
// on the control channel of a path, outside of the numbered stream.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "verbs/bond/path.h"

namespace weft::bond {

class BondEndpoint;

// Frozen with the wire version.
struct PathNote {
  enum class What : std::uint32_t {
    fence = 1,   // I gave up path `path`: take what has come there, say how much; FenceWords follow
    fenced = 2,  // taken: `taken` notices per channel follow
    probe = 3,   // does this path work?
    echo = 4,    // it does
  };
  What what = What::probe;
  std::uint16_t path = 0;
  std::uint16_t generation = 0;  // of the path
};
static_assert(sizeof(PathNote) == 8);
struct FenceWords {
  std::int64_t wait_ns = 0;      // for so long the path is not tried again
  std::uint64_t is_reserve = 0;  // 1: nothing failed on it (Retry::is_reserve)
};
static_assert(sizeof(FenceWords) == 16);

// Whether generation a comes after b; they wrap around.
[[nodiscard]] inline bool is_newer(std::uint16_t a, std::uint16_t b) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(a - b)) > 0;
}

class Notes {
 public:
  explicit Notes(BondEndpoint& endpoint) : endpoint_(endpoint) {}

  // Tells the peer something about a path, over one that carries notes. nullptr: over any that
  // lives.
  void say(PathNote::What what, const Path& about, const Path* over);
  // Sends a probe of a path over itself before all other notes that wait: the first note on a new
  // connection has to name its path (PortTrials).
  void probe_first(const Path& path);
  // Answers a fence of an earlier generation once more, as the first answer may have been lost.
  void say_again(const PathNote& fence, const Path& over);
  // Sends the notes that wait, as far as there is room.
  void send();
  // Takes the notes that have come. Returns whether there was one.
  bool take();
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  struct Waiting {
    PathNote note;
    const Path* over;
  };

  [[nodiscard]] std::vector<std::byte> text_of(const PathNote& note) const;

  BondEndpoint& endpoint_;
  std::deque<Waiting> waiting_;  // to be sent
};

}  // namespace weft::bond
