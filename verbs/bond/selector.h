// PathSelector: which path takes what is posted next, judged by what each path carried lately and by
// what it still has to carry. So fast paths take more, and a path takes nothing that another would
// deliver sooner.
//
// A path has grown slow if both hold:
//  - For `slow_ms`, and for half of that time with pieces under way, it carried less than
//    `slow_share` of what it had carried for long, and less than that share of what another path
//    carries now.
//  - That is still so after the peer has answered over another path.
// So paths that are unequal by nature are left alone, as are paths with little to do, and no path
// is blamed for a receiver that takes slowly.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "verbs/bond/path.h"

namespace weft::bond {

class BondEndpoint;

class PathSelector {
 public:
  PathSelector(BondEndpoint& endpoint, std::uint32_t channels);

  // As in transport/paths.h.
  void prefer_rail(std::uint32_t channel, int rail, PreferFrom from);
  void use_members(std::span<const int> ours, std::span<const int> theirs);
  // Applies use_members() to the paths, whose ports have changed.
  void choose_used();

  // The path that would deliver `bytes` more first; only paths that the caller wants used are
  // looked at, if all of them carry well. The path may be full: then the caller waits for it, since
  // every other would deliver later. nullptr: no path is live.
  [[nodiscard]] Path* choose(std::uint64_t bytes, std::int64_t now);
  // The path that the pieces of the channel prefer; nullptr if there is none, or if another path is
  // known to be much faster.
  [[nodiscard]] Path* preferred(std::uint32_t channel, std::int64_t now);

  // rate.cc: takes the samples of rates that are complete.
  void measure(std::int64_t now);
  // Gives the path up if it has grown slow.
  void look_for_slowness(Path& path, std::int64_t now);

 private:
  struct Preference {
    Path* path = nullptr;
    PreferFrom from = PreferFrom::start;
  };

  [[nodiscard]] double highest_rate(const Path& path) const;
  [[nodiscard]] bool do_used_carry_well(std::int64_t now) const;
  void close_sample(Path& path, std::int64_t now);
  void count_slowness(Path& path, std::int64_t now);
  [[nodiscard]] double rate_beside(const Path& path, std::int64_t now) const;

  BondEndpoint& endpoint_;
  std::vector<Path>& paths_;
  std::vector<Preference> preferences_;  // by channel
  std::vector<int> used_;                // use_members(): ours, and the peer's
  std::vector<int> peer_used_;
  bool uses_all_ = true;  // every path that is live may be used
};

}  // namespace weft::bond
